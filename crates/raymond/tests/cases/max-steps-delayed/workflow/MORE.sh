echo '<goto>MORE</goto>'
