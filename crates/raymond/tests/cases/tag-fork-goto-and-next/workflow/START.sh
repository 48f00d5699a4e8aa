echo '<fork next="END" i="1">W</fork><goto>END</goto>'
