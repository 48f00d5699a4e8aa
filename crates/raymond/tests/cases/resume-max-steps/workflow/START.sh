echo "$RAYMOND_VISITS" >> trace; [ $RAYMOND_VISITS = 5 ] && echo "<result>$(xargs < trace)</result>" || echo "<goto>START</goto>"
