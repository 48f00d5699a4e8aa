#!/bin/bash
# The facts come from a file beside the workflow, so that no agent has to look for them.
set -euo pipefail

raymond emit goto READ --input - < "$RAYMOND_STATE_DIR/changes.txt"
