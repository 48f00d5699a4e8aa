echo "<fork next='WEND'>DEEP</fork>"
