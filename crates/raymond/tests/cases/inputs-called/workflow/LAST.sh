echo "<print>last: $issue $RAYMOND_RESULT</print><reset-workflow issue=\"5\">../other</reset-workflow>"
