[ -e go ] || { touch hold; sleep 300; }; echo '<goto input="held">LAST</goto>'
