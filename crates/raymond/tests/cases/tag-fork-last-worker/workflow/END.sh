touch main-is-done; echo "<result>from main</result>"
