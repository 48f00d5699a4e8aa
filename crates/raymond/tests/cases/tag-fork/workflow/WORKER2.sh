echo "<result>$RAYMOND_RESULT, $item, $N, $RAYMOND_AGENT_ID, $(basename "$PWD")</result>"
