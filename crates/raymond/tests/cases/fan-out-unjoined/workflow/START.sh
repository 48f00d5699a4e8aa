for i in 1 2 3 4; do echo "<fork n='$i'>WORK</fork>"; done; echo '<goto>END</goto>'
