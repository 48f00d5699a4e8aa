#!/bin/bash
# raymond: timeout=30s
# Tests the code. A test costs nothing, so no model has to say whether the code works.
set -euo pipefail

code="$RAYMOND_TASK_FOLDER/slug.sh"
cp "$RAYMOND_INPUT_FILE" "$code"

failures=""
check() {
  local got
  got=$(bash -c 'source "$1" && slug "$2"' - "$code" "$1" 2>&1) || true
  if [[ "$got" != "$2" ]]; then failures+="slug '$1' prints '$got', not '$2'. "; fi
}
check 'Hello, World!' 'hello-world'
check '  two  blanks ' 'two-blanks'
check 'Already-good' 'already-good'

if [[ -z "$failures" ]]; then
  echo "<print>All tests pass.</print>"
  raymond emit result < "$code"
  exit
fi

raymond emit print "$failures"
# A call continues the caller's conversation, which has not seen the code: so say where it is.
raymond emit call CODE --return TEST --input "The last version, in $code, fails: $failures"
