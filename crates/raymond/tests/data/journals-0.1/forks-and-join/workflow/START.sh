echo "<fork item='a'>GOOD</fork><fork item='b'>BAD</fork><fork item='c'>GOOD</fork><goto>WAIT</goto>"
