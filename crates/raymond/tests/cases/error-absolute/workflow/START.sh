echo "<goto>$RAYMOND_STATE_FILE</goto>"
