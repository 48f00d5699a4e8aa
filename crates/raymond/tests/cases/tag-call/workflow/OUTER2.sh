echo "<result>outer($RAYMOND_RESULT)</result>"
