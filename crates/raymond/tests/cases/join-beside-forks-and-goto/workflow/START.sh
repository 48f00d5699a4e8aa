echo '<fork>W</fork><join>END</join><goto>END</goto>'
