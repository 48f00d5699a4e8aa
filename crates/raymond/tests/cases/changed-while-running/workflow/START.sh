case $RAYMOND_VISITS in 1) sed -i "s/^# mark/# changed/" "$RAYMOND_STATE_FILE"; echo "<goto>START</goto>";; *) echo "<result>$(grep -c "^# changed" "$RAYMOND_STATE_FILE")</result>";; esac
# mark
