#!/bin/bash
# raymond: max_visits=100
# Waits for the reports of all workers. It goes round through Raymond, so a stop takes effect between two looks.
set -euo pipefail
shopt -s nullglob

reports=("$RAYMOND_TASK_FOLDER"/reports/*)
texts=("$RAYMOND_STATE_DIR"/texts/*.txt)

if ((${#reports[@]} < ${#texts[@]})); then
  sleep 0.2
  echo "<goto>COLLECT</goto>"
else
  echo "<result>$(cat "${reports[@]}")</result>"
fi
