echo '<fork next="AGAIN">Worker</fork>'
