if make; then NEXT=GOOD; else NEXT=BAD; fi
echo "<goto>$NEXT</goto>"
