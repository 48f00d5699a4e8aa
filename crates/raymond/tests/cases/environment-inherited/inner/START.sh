echo "<result>${RAYMOND_INPUT-none} ${RAYMOND_RESULT-none} ${RAYMOND_INPUT_FILE-none} $item $RAYMOND_RUN_ID $RAYMOND_AGENT_ID</result>"
