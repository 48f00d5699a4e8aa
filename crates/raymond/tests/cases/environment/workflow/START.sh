env | grep ^RAYMOND_ | grep -v TOKEN | sort > env-main; cat "$RAYMOND_INPUT_FILE" > input-main; [ -d "$RAYMOND_TASK_FOLDER" ] || exit 1; echo "<fork next=\"END\" item=\"a b\">WORKER</fork>"
