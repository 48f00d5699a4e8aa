# The first line of the journal has the options of the run.
echo "<result>$(head -n 1 ".raymond/state/$RAYMOND_RUN_ID.jsonl" | grep -o '"max_parallel[a-z_]*":[0-9]*')</result>"
