until [ -e worker-done ]; do sleep 0.01; done; echo "<result>"; cat env-main; echo "input: $(cat input-main)"; cat env-worker; env | grep ^RAYMOND_INPUT; echo "</result>"
