echo "<result>got $RAYMOND_INPUT</result>"
