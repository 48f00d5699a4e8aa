echo '<fork-workflow item="a">../other</fork-workflow><fork-workflow item="b">../one.yaml</fork-workflow><goto>GATHER</goto>'
