echo '<function-workflow return="START">../other</function-workflow>'
