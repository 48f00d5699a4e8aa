echo '<print x="1">hello</print><print>plain</print>'
echo '<goto>NEXT</goto>'
