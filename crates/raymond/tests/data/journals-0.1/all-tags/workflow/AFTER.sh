echo "<function-workflow return='ASK' cd='.' input='f'>../other</function-workflow>"
