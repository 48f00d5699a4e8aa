echo '<fork next="W" a-b="1" a_b="2">W</fork>'
