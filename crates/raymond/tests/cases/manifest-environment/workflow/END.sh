echo "<result>$GREETING $PORT $RAYMOND_RESULT</result>"
