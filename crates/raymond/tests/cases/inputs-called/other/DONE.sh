echo "<result>$issue: $(printf %s "$RAYMOND_RESULT" | grep -o '"result":"[^"]*"')</result>"
