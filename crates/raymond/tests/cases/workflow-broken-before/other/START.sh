echo '<goto>LAST</goto>'
