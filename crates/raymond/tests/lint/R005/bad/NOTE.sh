echo '<goto>END.txt</goto>'
