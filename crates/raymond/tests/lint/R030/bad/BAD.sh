echo '<fork next="END" item="'"$ITEM"'">END</fork>'
echo '<goto>END</goto>'
