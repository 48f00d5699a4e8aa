echo "<result>did $RAYMOND_INPUT</result>"
