echo "<goto>$NEXT</goto>"
