echo "<result>$PWD</result>"
