echo "<goto input='own'>DEEP</goto>"
