echo "<result>${RAYMOND_INPUT-unset} ${RAYMOND_RESULT-unset} ${RAYMOND_INPUT_FILE-unset}</result>"
