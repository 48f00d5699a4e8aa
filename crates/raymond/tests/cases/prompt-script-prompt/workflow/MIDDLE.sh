echo '<goto input="from the script">NEXT</goto>'
