# raymond: max_visits=100
# A real workflow would ask a tracker or look into a folder; this one finds something at the third visit.
# The agent's own folder keeps data from one visit to the next.
looks=$(( $(cat "$RAYMOND_TASK_FOLDER/looks" 2>/dev/null || echo 0) + 1 ))
echo "$looks" > "$RAYMOND_TASK_FOLDER/looks"

if [ "$looks" -ge 3 ]; then
  echo "<print>Found something at look $looks.</print>"
  echo "<goto input='Ticket 17: the login page shows the wrong year.'>ANSWER</goto>"
else
  # Raymond waits, not this script: nothing runs meanwhile, and a restart of the machine does not matter.
  echo "<reset delay='500ms'>START</reset>"
fi
