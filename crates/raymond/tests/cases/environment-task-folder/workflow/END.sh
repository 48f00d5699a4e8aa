until [ -e done ]; do sleep 0.01; done; echo "<result>main: $(cat "$RAYMOND_TASK_FOLDER/note"), worker saw [$(cat seen)]</result>"
