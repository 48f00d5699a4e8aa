#!/bin/bash
# raymond: max_visits=3
set -euo pipefail

words=$(wc -w <<< "$RAYMOND_INPUT")
if [ "$words" -le 20 ]; then
  raymond emit result "$RAYMOND_INPUT"
else
  raymond emit print "$words words are too many."
  raymond emit goto START --input "That had $words words."
fi
