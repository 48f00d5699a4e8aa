echo "<result>end($RAYMOND_RESULT)</result>"
