echo "<call-workflow return=\"BACK\" issue=\"$((issue + 1))\" note=\"note.txt\">../other</call-workflow>"
