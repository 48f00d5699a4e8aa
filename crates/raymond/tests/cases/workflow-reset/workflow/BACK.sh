echo "<result>never</result>"
