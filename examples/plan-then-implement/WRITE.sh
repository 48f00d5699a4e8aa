#!/bin/bash
# Keeps the plan and hands it to the agent that writes. A file needs no escaping.
set -euo pipefail

printf '%s\n' "$RAYMOND_RESULT" > "$RAYMOND_TASK_FOLDER/plan.txt"
echo "<print>The plan is in $RAYMOND_TASK_FOLDER/plan.txt</print>"
echo "<goto>IMPLEMENT</goto>"
