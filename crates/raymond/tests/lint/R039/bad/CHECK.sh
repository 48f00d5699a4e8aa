# raymond: max_visits=3
if [ -n "$RAYMOND_INPUT" ]; then
  echo "<result>ok</result>"
else
  echo "<goto>START</goto>"
fi
