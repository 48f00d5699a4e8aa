echo "<result>$i</result>"
