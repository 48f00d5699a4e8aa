rm "$RAYMOND_STATE_DIR/BACK.sh"; echo "<result>x</result>"
