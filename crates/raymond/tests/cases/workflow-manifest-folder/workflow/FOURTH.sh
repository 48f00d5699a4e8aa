echo "<fork-workflow next=\"WAIT\" input=\"$RAYMOND_RESULT\">../other</fork-workflow>"
