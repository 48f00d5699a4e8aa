echo '<goto>REVEIW</goto>'
