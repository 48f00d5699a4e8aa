echo '<call-workflow return="END">../other.zip</call-workflow>'
