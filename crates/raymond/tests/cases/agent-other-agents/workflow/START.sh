echo "<fork next='NEXT'>BAD</fork>"
