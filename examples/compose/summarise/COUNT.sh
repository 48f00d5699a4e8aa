#!/bin/bash
# raymond: max_visits=3
set -euo pipefail

words=$(wc -w <<< "$RAYMOND_INPUT")
if [ "$words" -le 20 ]; then
  printf '<result>%s</result>\n' "$RAYMOND_INPUT"
else
  echo "<print>$words words are too many.</print>"
  echo "<goto input='That had $words words.'>START</goto>"
fi
