echo "<result>$(basename "$PWD")</result>"
