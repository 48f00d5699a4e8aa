# raymond: retry=3 backoff=10ms
echo '<goto>NOWHERE</goto>'
