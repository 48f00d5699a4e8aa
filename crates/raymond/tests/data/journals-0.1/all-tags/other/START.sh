echo "<result>other got ${RAYMOND_INPUT:-nothing}</result>"
