echo '<fork next="W" result="1">W</fork>'
