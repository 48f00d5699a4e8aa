echo "<print>begin</print><goto input='hello'>PLAN</goto>"
