for i in 1 2 3; do echo "<fork next='END' i='$i'>WORKER</fork>"; done; echo '<fork next="END">ANALYZE</fork>'
