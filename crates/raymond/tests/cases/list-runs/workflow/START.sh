[ "$RAYMOND_RUN_ID" = bad ] && exit 1; echo "<result>ok</result>"
