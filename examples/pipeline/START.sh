#!/bin/bash
# Forks a worker for each text. What a worker needs for its whole life goes into attributes: `text` becomes a variable
# in the worker's environment. `input` is for its first state only.
set -euo pipefail

# The texts lie beside this file, in a folder or unpacked from an archive.
for text in "$(dirname "$RAYMOND_STATE_FILE")"/texts/*.txt; do
  printf '<fork text="%s" input="%s">COUNT</fork>\n' "$text" "${RAYMOND_INPUT:-3}"
done

# Where this agent itself continues, once every worker has ended. Nothing runs while it waits.
echo "<join>MERGE</join>"
