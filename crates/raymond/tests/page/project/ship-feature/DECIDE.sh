#!/bin/bash
# Only "yes" counts as yes; everything else is a wish for the reviewer.
set -euo pipefail
if [[ "${RAYMOND_INPUT:-}" =~ ^[[:space:]]*[Yy](es)?[[:space:].!]*$ ]]; then
  echo "<result>Merged: downloads resume where they stopped. 3 parts, 15 tests.</result>"
else
  raymond emit goto REVIEW --input "The maintainer wants: ${RAYMOND_INPUT:-}"
fi
