echo "<fork next='NEXT'>LIMITED</fork>"
