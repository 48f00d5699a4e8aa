echo "<result>counted $RAYMOND_INPUT</result>"
