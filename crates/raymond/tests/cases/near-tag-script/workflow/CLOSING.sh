echo 'N</goto>'
echo '<goto>N</goto>'
