#!/bin/bash
# The other workflow has returned its sentence. A third workflow judges it, and gets nothing else.
set -euo pipefail

printf '%s' "$RAYMOND_INPUT" > "$RAYMOND_TASK_FOLDER/summary"
summary=$(sed 's/&/\&amp;/g; s/</\&lt;/g; s/"/\&quot;/g' <<< "$RAYMOND_INPUT")
printf '<function-workflow return="DONE" input="%s">../proofread.yaml</function-workflow>\n' "$summary"
