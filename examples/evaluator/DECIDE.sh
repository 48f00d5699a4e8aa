#!/bin/bash
# Turns the verdict into a transition. Back at START the writer remembers its earlier line: a function leaves the
# caller's conversation as it was.
set -euo pipefail

case "$RAYMOND_RESULT" in
  PASS*)
    raymond emit result < "$RAYMOND_TASK_FOLDER/line.txt" ;;
  FAIL*)
    raymond emit print "$RAYMOND_RESULT"
    raymond emit goto START --input "Your last line was not good enough. $RAYMOND_RESULT" ;;
  *)
    echo "the judge said neither PASS nor FAIL: $RAYMOND_RESULT" >&2
    exit 1 ;;
esac
