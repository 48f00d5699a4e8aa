echo "<goto>C</goto> had $RAYMOND_INPUT"
