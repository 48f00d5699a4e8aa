echo '<fork next="W">W</fork>'
