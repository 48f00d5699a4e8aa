echo '<goto>EMPTY</goto>'
