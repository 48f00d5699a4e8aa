echo "<result>$RAYMOND_INPUT $(basename "$PWD")</result>"
