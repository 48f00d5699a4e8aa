echo "<result>second</result>"
