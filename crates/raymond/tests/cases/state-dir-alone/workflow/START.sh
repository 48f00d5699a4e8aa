echo '<goto>SHOW</goto>'
