#!/bin/bash
# Collects what the plan needs to know.
set -euo pipefail
wish="${RAYMOND_INPUT:-Resume a download where it stopped}"
echo "<print>Planning: $wish</print>"
raymond emit goto PLAN --input "$wish"
