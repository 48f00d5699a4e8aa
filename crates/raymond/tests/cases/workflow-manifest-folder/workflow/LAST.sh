echo "<reset-workflow input=\"$(echo "$RAYMOND_RESULT" | sed 's/.*"result":"\([^"]*\)".*/\1/') and back in $(basename "$PWD")\">../other</reset-workflow>"
