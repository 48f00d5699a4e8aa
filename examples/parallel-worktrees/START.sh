#!/bin/bash
# Makes a small repository to work in. Your own workflow begins with OPEN.sh, in the repository that it is run in.
set -euo pipefail

project="$RAYMOND_TASK_FOLDER/project"
rm -rf "$project"
git init --quiet "$project"
cd "$project"
git config user.name "An example"
git config user.email "example@example.org"
cp "$RAYMOND_STATE_DIR"/project/* .
git add .
git commit --quiet -m "A library without functions"
echo "<reset cd='$project'>OPEN</reset>"
