#!/bin/bash
# raymond: timeout=60s max_visits=20
# Merges the next branch of a worker. One that breaks a test is left out, and conflicts go to an agent.
set -euo pipefail

# What an interrupted attempt has left: locks of a git that was killed, and a half merged branch. Only this run uses this
# repository. Where others use yours too, look first whether one of their gits is running.
find .git -maxdepth 1 -name '*.lock' -delete
find .git/refs/heads -maxdepth 1 -name '*.lock' -delete
git reset --quiet --hard

left_out="$RAYMOND_TASK_FOLDER/left-out"
touch "$left_out"
branches=$(git for-each-ref --format='%(refname:short)' --no-merged=HEAD "refs/heads/raymond-run/$RAYMOND_RUN_ID/")
branch=$(grep --invert-match --line-regexp --fixed-strings --file "$left_out" <<< "$branches" | head -n 1) || true

if [[ -z "$branch" ]]; then
  # Sorted: which worker was faster does not matter.
  echo "<result>$(git log --format='merged: %s' --no-merges --grep=TEXT | sort)
$(sed 's/^/left out: /' "$left_out")</result>"
  exit
fi

echo "$branch" > "$RAYMOND_TASK_FOLDER/branch"
if git merge --quiet --no-commit --no-ff "$branch" >&2; then
  echo "<goto>TEST</goto>"
else
  echo "<print>$branch is in conflict with what is merged already.</print>"
  raymond emit function RESOLVE --return TEST --input "$(cat library.sh)"
fi
