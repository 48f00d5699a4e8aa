for i in 1 2 3; do echo "<fork next='MAIN' i='$i'>WORK</fork>"; done; echo '<fork next="MAIN">BAD</fork>'
