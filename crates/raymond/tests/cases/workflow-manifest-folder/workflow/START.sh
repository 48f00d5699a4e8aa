echo '<function-workflow return="SECOND">../other</function-workflow>'
