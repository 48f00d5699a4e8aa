#!/bin/bash
# The facts come from a file beside the workflow, so that no agent has to look for them.
set -euo pipefail

changes=$(sed 's/&/\&amp;/g; s/</\&lt;/g; s/"/\&quot;/g' "$RAYMOND_STATE_DIR/changes.txt")
printf '<goto input="%s">READ</goto>\n' "$changes"
