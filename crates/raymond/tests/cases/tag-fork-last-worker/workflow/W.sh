until [ -e main-is-done ]; do sleep 0.01; done; echo "<result>from worker</result>"
