echo "<goto input='$RAYMOND_RESULT'>LAST</goto>"
