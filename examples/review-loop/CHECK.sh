#!/bin/bash
# raymond: max_visits=4
# Checks everything that needs no judgement, and says what is wrong.
set -euo pipefail

draft="${RAYMOND_INPUT:-}"
words=$(wc -w <<< "$draft")
problems=""
if ((words == 0)); then problems+="There is no sentence. "; fi
if ((words > 25)); then problems+="It has $((words)) words, and 25 are allowed. "; fi
for year in 1874 1988; do
  if [[ "$draft" != *"$year"* ]]; then problems+="The year $year is missing. "; fi
done

if [[ -z "$problems" ]]; then
  raymond emit result "$draft"
else
  raymond emit print "Sent back: $problems"
  raymond emit goto REVISE --input "$problems"
fi
