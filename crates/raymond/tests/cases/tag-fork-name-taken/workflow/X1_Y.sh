echo "<result>$RAYMOND_AGENT_ID</result>"
