echo '<fork next="DONE">BROKEN</fork>'
