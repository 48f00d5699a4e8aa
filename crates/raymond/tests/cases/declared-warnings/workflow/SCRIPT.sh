echo '<goto>NOWHERE</goto>'
