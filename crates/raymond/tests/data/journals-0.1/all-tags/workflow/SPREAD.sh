echo "<fork item='1'>WORK</fork><fork-workflow item='2'>../other</fork-workflow><goto>WAIT</goto>"
