echo '<fork next="WAIT">X</fork>'
