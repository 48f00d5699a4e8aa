until [ -e failed-now ]; do sleep 0.01; done; sleep 0.2; echo "<result>main has ended</result>"
