# raymond: max_visits=2
echo '<goto>START</goto>'
