echo "<function-workflow return=\"THIRD\" cd=\"chosen\" input=\"$RAYMOND_RESULT\">../other</function-workflow>"
