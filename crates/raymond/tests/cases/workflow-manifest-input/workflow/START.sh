# raymond: fatal=agent
echo '<fork next="WAIT">NEEDS</fork><fork next="WAIT">TAKES</fork><fork next="WAIT">RIGHT</fork>'
