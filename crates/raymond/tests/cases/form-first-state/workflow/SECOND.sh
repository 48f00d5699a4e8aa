echo "<result>2</result>"
