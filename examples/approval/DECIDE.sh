#!/bin/bash
# Reads the person's answer. Only "yes" counts as yes; everything else is a wish for the agent, which still remembers its line.
set -euo pipefail

answer="${RAYMOND_INPUT:-}"
if [[ "$answer" =~ ^[[:space:]]*[Yy](es)?[[:space:].!]*$ ]]; then
  echo "<result>approved</result>"
else
  raymond emit goto START --input "It cannot go out yet: $answer"
fi
