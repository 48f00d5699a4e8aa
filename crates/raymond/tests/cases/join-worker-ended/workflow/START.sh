echo "<fork next='END'>W</fork>"
