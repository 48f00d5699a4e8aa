#!/bin/bash
# raymond: max_visits=2
if [ "$RAYMOND_VISITS" = 1 ]; then
  echo "<goto>START</goto>"
else
  echo "<goto>NEXT</goto>"
fi
