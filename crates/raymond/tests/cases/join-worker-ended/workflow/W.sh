touch worked; echo "<result>w</result>"
