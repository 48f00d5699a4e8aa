# raymond: fatal=agent
echo '<call-workflow return="END">../needs</call-workflow>'
