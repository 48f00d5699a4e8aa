echo '<reset>FRESH</reset>'
