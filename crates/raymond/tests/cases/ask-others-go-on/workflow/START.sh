echo "<fork next='MAIN'>W</fork>"
