#!/bin/bash
# Collects facts about the text, so that no model is paid for counting words.
set -euo pipefail

article="$RAYMOND_STATE_DIR/article.txt"
title=$(head -n 1 "$article")
words=$(wc -w < "$article")
years=$(grep -oE '\b[0-9]{4}\b' "$article" | sort -u | paste -sd ' ' -)

raymond emit print "$title: $((words)) words, years $years"
raymond emit goto DRAFT --input "The text is in $article. It has $((words)) words and names the years $years."
