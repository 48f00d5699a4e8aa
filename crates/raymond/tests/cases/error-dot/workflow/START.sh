echo '<goto>.</goto>'
