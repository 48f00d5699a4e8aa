echo "<result>$RAYMOND_RESULT</result>"
