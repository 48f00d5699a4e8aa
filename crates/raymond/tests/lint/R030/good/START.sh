echo "<fork next=\"END\" item=\"$ITEM\">END</fork>"
