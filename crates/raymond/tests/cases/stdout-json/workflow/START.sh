echo '<goto>END</goto>'
