echo "<fork next='JOIN'>W</fork>"
