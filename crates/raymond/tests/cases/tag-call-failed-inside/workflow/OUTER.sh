echo '<function return="OUTER2">INNER</function>'
