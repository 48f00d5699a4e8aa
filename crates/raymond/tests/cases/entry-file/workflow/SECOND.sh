echo '<goto>THIRD</goto>'
