echo "<result>1</result>"
