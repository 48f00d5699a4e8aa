touch ran
echo '<goto>NEXT</goto>'
