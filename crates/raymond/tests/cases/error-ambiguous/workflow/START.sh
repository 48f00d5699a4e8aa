echo '<goto>B</goto>'
