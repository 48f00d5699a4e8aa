# One worker for each file. Its variable `file` is set in all its prompts and scripts.
for file in parser.c writer.c reader.c; do
  raymond emit fork REVIEW file="$file"
done
# This agent itself waits until all of them have ended, and goes on with their results.
echo "<join>SUMMARY</join>"
