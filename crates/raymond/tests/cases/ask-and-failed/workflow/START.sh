echo "<fork next='BAD'>W</fork>"
