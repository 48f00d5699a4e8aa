echo '<goto>TIDY</goto>'
