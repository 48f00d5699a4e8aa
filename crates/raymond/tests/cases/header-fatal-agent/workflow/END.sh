until grep -q '"step_failed"' .raymond/state/r.jsonl; do sleep 0.01; done; echo "<result>main has ended</result>"
