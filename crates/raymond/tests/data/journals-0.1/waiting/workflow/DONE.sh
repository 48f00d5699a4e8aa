echo "<result>answered $RAYMOND_INPUT</result>"
