echo '<fork>A</fork><goto>A</goto><goto>A</goto>'
