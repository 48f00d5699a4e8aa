echo '<reset-workflow>../other</reset-workflow>'
