cat "$RAYMOND_STATE_DIR/../shared.txt" > text
echo seen >> "$RAYMOND_STATE_DIR/log"
echo '<result>ok</result>'
