touch joined; echo "<result>$RAYMOND_RESULT</result>"
