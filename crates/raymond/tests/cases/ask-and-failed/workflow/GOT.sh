echo "<result>got: $RAYMOND_RESULT.</result>"
