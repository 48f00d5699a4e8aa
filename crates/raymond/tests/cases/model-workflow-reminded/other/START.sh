echo "<result>the other ran</result>"
