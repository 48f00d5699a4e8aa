#!/bin/bash
# Keeps the line for later and hands it to the judge. The judge runs as a function: in a fresh conversation, so that
# the writer's reasons do not influence it, and on its own model.
set -euo pipefail

line="${RAYMOND_INPUT:-}"
printf '%s' "$line" > "$RAYMOND_TASK_FOLDER/line.txt"

# An attribute is text between quotes, so special characters are written as entities.
line=$(sed 's/&/\&amp;/g; s/</\&lt;/g; s/"/\&quot;/g' <<< "$line")
echo "<function return=\"DECIDE\" input=\"$line\">JUDGE</function>"
