#!/bin/bash
# A worker's first state: calls RANK as a subroutine and continues at REPORT with its result.
set -euo pipefail

if [[ ! -r "$text" ]]; then
  echo "cannot read $text" >&2
  exit 1
fi

echo "<call return='REPORT' input='$RAYMOND_INPUT'>RANK</call>"
