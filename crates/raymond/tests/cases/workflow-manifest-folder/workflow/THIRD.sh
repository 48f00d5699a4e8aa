echo "<call-workflow return=\"FOURTH\" input=\"$RAYMOND_RESULT\">../other</call-workflow>"
