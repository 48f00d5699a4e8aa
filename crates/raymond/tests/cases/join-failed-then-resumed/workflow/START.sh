echo "<fork next='STOPS'>W</fork>"
