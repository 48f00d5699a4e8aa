echo "<result>$RAYMOND_INPUT $(basename "$PWD") visits $RAYMOND_VISITS</result>"
