echo '<function-workflow return="BACK" cd="deep">../other/TWO</function-workflow>'
