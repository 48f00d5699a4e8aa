echo "<fork next='ASIDE'>OTHER</fork>"
