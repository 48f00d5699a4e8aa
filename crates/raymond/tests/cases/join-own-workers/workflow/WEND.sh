echo "<result>w</result>"
