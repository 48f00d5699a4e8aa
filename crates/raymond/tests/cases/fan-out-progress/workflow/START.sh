for i in $(seq 20); do echo "<fork n='$i'>WORK</fork>"; done; echo '<join>END</join>'
