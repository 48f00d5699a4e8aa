echo "<result>late: ${RAYMOND_RESULT-unset}.</result>"
