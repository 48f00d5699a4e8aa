echo "<result>$RAYMOND_RESULT, back in $(basename $PWD)</result>"
