echo "echo \"<result>born late</result>\"" > "$RAYMOND_STATE_DIR/BORN.sh"; echo "<goto>BORN</goto>"
