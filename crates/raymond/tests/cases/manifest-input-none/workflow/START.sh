echo "<result>${RAYMOND_INPUT-none}</result>"
