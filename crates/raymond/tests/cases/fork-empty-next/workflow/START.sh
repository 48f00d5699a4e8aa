echo '<fork next="">START</fork>'
