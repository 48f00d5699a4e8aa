[ $RAYMOND_VISITS = 3 ] && echo "<result>$RAYMOND_VISITS</result>" || echo "<goto>START</goto>"
