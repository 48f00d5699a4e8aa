ls "$RAYMOND_TASK_FOLDER" > seen; touch done; echo "<result>$(cat seen)</result>"
