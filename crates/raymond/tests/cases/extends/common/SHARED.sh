cat "$(dirname "$RAYMOND_STATE_FILE")/data.txt"
echo "<goto>OWN</goto>"
