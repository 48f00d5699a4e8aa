echo '<Fork item="a">W</Fork><goto>N</goto>'
