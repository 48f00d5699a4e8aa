echo '<reset cd="no/such">START</reset>'
