echo "item=$item" > env-worker; env | grep ^RAYMOND_ | grep -v TOKEN | sort >> env-worker; [ -d "$RAYMOND_TASK_FOLDER" ] || exit 1; touch worker-done; echo "<result>x</result>"
