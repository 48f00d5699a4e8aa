#!/bin/bash
# Keeps the line for later and hands it to the judge. The judge runs as a function: in a fresh conversation, so that
# it is not swayed by the reasons the writer had, and on its own model.
set -euo pipefail

line="${RAYMOND_INPUT:-}"
printf '%s' "$line" > "$RAYMOND_TASK_FOLDER/line.txt"

# An attribute is text between quotes: what would end it early is written as an entity.
line=$(sed 's/&/\&amp;/g; s/</\&lt;/g; s/"/\&quot;/g' <<< "$line")
echo "<function return=\"DECIDE\" input=\"$line\">JUDGE</function>"
