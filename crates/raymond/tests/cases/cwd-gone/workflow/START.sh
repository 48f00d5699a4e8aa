mkdir sub; echo "<reset cd=\"sub\">NEXT</reset>"
