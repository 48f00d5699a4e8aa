[ -e go ] || exit 1
echo "<result>$(wc -c < "$RAYMOND_INPUT_FILE")</result>"
