echo "<result>the clone ran</result>"
