echo '<print level=1>a</print><goto>N</goto>'
