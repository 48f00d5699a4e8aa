echo '<fork next="W" ask_id="1">W</fork>'
