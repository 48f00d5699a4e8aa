echo "<goto>BAD</goto>"
