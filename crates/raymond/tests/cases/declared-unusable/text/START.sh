exec echo '<goto>END</goto>'
echo '<function-workflow return="END">../workflow/folder</function-workflow>'
