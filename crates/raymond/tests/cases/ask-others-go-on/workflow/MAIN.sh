echo "<goto>MORE</goto>"
