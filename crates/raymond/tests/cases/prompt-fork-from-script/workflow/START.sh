for i in 1 2 3; do echo "<fork i='$i'>WORK</fork>"; done; echo "<goto>NEXT</goto>"
