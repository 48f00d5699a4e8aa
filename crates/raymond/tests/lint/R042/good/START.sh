cat "$RAYMOND_STATE_DIR/shared.txt" > text
echo seen >> "$RAYMOND_TASK_FOLDER/log"
echo '<result>ok</result>'
