[ -e go ] && echo "<goto>NEXT</goto>" || exit 1
