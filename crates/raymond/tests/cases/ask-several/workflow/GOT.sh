echo "<result>$i got $RAYMOND_RESULT</result>"
