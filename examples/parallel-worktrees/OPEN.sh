#!/bin/bash
# One worker for each issue. Each has a worktree of its own, so none sees what another one has half written.
set -euo pipefail

echo "<fork worktree='upper' issue='upper TEXT prints the text in capital letters'>SOLVE</fork>"
echo "<fork worktree='words' issue='words TEXT prints how many words the text has'>SOLVE</fork>"
echo "<fork worktree='twice' issue='twice TEXT prints the text two times'>SOLVE</fork>"
echo "<join>MERGE</join>"
