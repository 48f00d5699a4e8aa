echo "<result>${RAYMOND_INPUT-unset}|$(wc -c < "$RAYMOND_INPUT_FILE")</result>"
