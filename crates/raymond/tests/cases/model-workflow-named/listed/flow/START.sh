echo "<result>listed</result>"
