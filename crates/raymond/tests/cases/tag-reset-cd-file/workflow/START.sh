touch plain; echo '<reset cd="plain">START</reset>'
