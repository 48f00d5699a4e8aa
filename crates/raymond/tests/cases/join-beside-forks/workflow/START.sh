for i in 1 2 3; do echo "<fork i='$i'>W</fork>"; done; echo '<join>END</join>'
