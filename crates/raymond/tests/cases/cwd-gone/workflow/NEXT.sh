rmdir "$PWD"; echo "<goto>LAST</goto>"
