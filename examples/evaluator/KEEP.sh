#!/bin/bash
# Keeps the line for later and hands it to the judge. The judge runs as a function: in a fresh conversation, so that
# the writer's reasons do not influence it, and on its own model.
set -euo pipefail

cp "$RAYMOND_INPUT_FILE" "$RAYMOND_TASK_FOLDER/line.txt"
raymond emit function JUDGE --return DECIDE --input - < "$RAYMOND_INPUT_FILE"
