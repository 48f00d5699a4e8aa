test -f ready && echo "<result>first</result>"
