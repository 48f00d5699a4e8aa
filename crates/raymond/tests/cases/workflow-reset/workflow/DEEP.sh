echo '<reset-workflow input="x">../other</reset-workflow>'
