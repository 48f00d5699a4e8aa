echo '<GOTO>START</GOTO>'
