echo '<fork cd=/x>W</fork><goto>N</goto>'
