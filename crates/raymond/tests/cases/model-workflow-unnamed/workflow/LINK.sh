ln -s clone/flows "$RAYMOND_STATE_DIR/../link"
echo "<goto>FORK</goto>"
