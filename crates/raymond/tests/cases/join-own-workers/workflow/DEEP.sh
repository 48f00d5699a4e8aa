until [ -e joined ]; do sleep 0.01; done; echo "<result>deep</result>"
