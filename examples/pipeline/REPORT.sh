#!/bin/bash
# The call has returned: RAYMOND_RESULT is what RANK handed back, and the variables of the fork are still there.
set -euo pipefail

name=$(basename "$text" .txt)
# Written under another name first, so that COLLECT never reads half a report.
echo "$name: $RAYMOND_RESULT" > "$out/.$name"
mv "$out/.$name" "$out/$name"

echo "<result>$name</result>"
