#!/bin/bash
# raymond: timeout=60s
# Commits the merge if the tests pass. Its input is the whole file, if an agent has resolved a conflict.
set -euo pipefail

# Locks of a git that was killed in an interrupted attempt; see MERGE.sh.
find .git -maxdepth 1 -name '*.lock' -delete
find .git/refs/heads -maxdepth 1 -name '*.lock' -delete

branch=$(cat "$RAYMOND_TASK_FOLDER/branch")
if [[ -n "${RAYMOND_INPUT_FILE:-}" ]]; then cp "$RAYMOND_INPUT_FILE" library.sh; fi

if [[ ! -e .git/MERGE_HEAD ]]; then
  echo "<print>$branch was merged before this step was interrupted.</print>"
elif bash test.sh >&2; then
  git commit --quiet --all -m "Merge $branch"
else
  git merge --abort
  echo "$branch" >> "$RAYMOND_TASK_FOLDER/left-out"
fi
echo "<goto>MERGE</goto>"
