results=$(grep -o '"result":"[^"]*"' <<< "$RAYMOND_RESULT" | cut -d'"' -f4 | sort | paste -sd, | sed 's/,/, /')
echo "<result>$results</result>"
