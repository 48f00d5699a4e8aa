echo '<fork x="1">W</fork><fork x="2">W</fork><goto>END</goto>'
