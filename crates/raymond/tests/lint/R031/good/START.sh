echo '<call-workflow return="END">../bad</call-workflow>'
