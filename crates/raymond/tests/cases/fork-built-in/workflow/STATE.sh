echo '<fork next="W" state="1">W</fork>'
