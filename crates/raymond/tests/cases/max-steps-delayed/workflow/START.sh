echo '<fork next="MORE">WORK</fork>'
