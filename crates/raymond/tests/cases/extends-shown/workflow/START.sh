echo '<goto>SHARED</goto>'
