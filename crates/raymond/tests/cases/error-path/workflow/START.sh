echo '<goto>sub/START.sh</goto>'
