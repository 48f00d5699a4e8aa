echo "<call-workflow return='AFTER' input='c'>../other</call-workflow>"
