# raymond: fatal=run
echo "<result>$(printf %s "$RAYMOND_INPUT" | grep -o '"status":"[a-z]*"')</result>"
