echo '<reset-workflow>../script</reset-workflow>'
