echo "<fork next='JOIN2' i='2'>W</fork>"
