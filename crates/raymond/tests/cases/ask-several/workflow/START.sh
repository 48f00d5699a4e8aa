for i in 1 2; do echo "<fork i='$i'>W</fork>"; done; echo '<goto>JOIN</goto>'
