echo "<fork next='JOIN' i='1'>W</fork>"
