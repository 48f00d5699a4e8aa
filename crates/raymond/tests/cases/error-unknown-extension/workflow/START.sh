echo '<goto>B.txt</goto>'
