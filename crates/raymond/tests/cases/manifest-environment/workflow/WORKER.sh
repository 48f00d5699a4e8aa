echo "<result>$GREETING $PORT</result>"
