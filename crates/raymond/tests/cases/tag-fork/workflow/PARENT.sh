echo "<result>parent ${item-without} ${RAYMOND_INPUT-without} $(basename "$PWD")</result>"
