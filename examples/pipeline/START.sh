#!/bin/bash
# Forks a worker for each text. What a worker needs goes into attributes: `text` is a variable in all its states. What
# every state needs is an input of the workflow, such as `words`.
set -euo pipefail

# The texts lie beside this file, in a folder or unpacked from an archive.
for text in "$(dirname "$RAYMOND_STATE_FILE")"/texts/*.txt; do
  raymond emit fork COUNT text="$text" --title "$(basename "$text")"
done

# Where this agent itself continues, once every worker has ended. Nothing runs while it waits.
echo "<join>MERGE</join>"
