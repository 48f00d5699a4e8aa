echo "$RAYMOND_RESULT" >> seen; echo "<join>END</join>"
