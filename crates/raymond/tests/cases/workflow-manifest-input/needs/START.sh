echo "<result>about $RAYMOND_INPUT</result>"
