echo "<result>${RAYMOND_RESULT:-the end}</result>"
