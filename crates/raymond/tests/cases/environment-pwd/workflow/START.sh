mkdir -p sub && echo '<reset cd="sub">SHOW</reset>'
