read -r line; echo "[$line]"; echo '<goto input="sh">NEXT</goto>'
