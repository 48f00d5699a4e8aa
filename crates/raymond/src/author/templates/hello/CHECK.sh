#!/bin/bash
# raymond: timeout=1m
# A script is a state, too: it costs nothing, and its output says what comes next.
if [ "${#RAYMOND_INPUT}" -gt 5 ]; then
  raymond emit result "$RAYMOND_INPUT"
else
  echo '<goto>START</goto>'
fi
