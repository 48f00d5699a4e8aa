echo "<result>the other one ends it with $RAYMOND_INPUT</result>"
