echo "<result>did $i</result>"
