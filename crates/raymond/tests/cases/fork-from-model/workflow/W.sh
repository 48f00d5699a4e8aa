echo '<reset>W2</reset>'
