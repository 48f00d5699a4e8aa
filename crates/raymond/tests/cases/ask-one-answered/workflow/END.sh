echo "<result>$RAYMOND_INPUT</result>"
