[ $RAYMOND_VISITS = 3 ] && echo "<result>x</result>" || echo "<goto>START</goto>"
