echo '<call-workflow return="BACK" input="in">../other</call-workflow>'
