echo mine > "$RAYMOND_TASK_FOLDER/note"; echo "<fork next=\"END\">W</fork>"
