echo "<fork next='JOIN' i='2'>W</fork>"
