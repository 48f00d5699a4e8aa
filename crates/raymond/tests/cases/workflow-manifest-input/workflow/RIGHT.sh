echo '<call-workflow return="END" input="y">../needs</call-workflow>'
