echo '<call-workflow return="END">../../other</call-workflow>'
