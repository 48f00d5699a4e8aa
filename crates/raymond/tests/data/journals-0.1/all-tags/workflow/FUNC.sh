echo "<result>func</result>"
