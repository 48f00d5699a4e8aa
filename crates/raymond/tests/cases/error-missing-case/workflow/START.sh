echo '<goto>review</goto>'
