echo '<goto>START'
