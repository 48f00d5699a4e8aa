echo "<fork next='CALL' i='1'>W</fork>"
