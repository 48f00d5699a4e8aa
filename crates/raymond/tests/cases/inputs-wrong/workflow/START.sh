echo "<result>$issue</result>"
