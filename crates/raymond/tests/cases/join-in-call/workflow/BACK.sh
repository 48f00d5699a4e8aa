echo "<result>back: $RAYMOND_RESULT</result>"
