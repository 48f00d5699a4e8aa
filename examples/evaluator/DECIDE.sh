#!/bin/bash
# Turns the verdict into a transition. Back at START the writer remembers its earlier line: a function leaves the
# caller's conversation as it was.
set -euo pipefail

case "$RAYMOND_RESULT" in
  PASS*)
    echo "<result>$(cat "$RAYMOND_TASK_FOLDER/line.txt")</result>" ;;
  FAIL*)
    echo "<print>$RAYMOND_RESULT</print>"
    reason=$(tr -d "<>&'\"" <<< "$RAYMOND_RESULT")
    echo "<goto input=\"Your last line was not good enough. $reason\">START</goto>" ;;
  *)
    echo "the judge said neither PASS nor FAIL: $RAYMOND_RESULT" >&2
    exit 1 ;;
esac
