echo "<goto input='$RAYMOND_RESULT'>END</goto>"
