#!/bin/bash
# Forks a worker for each text. What a worker needs for its whole life goes into variables: `text` and `out` are
# attributes of the fork and so variables in the worker's environment. `input` is for its first state only.
set -euo pipefail

reports="$RAYMOND_TASK_FOLDER/reports"
mkdir -p "$reports"

for text in "$RAYMOND_STATE_DIR"/texts/*.txt; do
  printf '<fork text="%s" out="%s" input="%s">COUNT</fork>\n' "$text" "$reports" "${RAYMOND_INPUT:-3}"
done

# Where this agent itself goes on.
echo "<goto>COLLECT</goto>"
