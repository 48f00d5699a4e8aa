#!/bin/bash
# raymond: timeout=1m
# Counts the parcels, so that no model has to. START.bat does the same on Windows.
count=0
while read -r line; do
    [ -n "$line" ] && count=$((count + 1))
done < "$RAYMOND_STATE_DIR/parcels.txt"
echo "<goto input=\"$count\">NOTE</goto>"
