echo "BUILD $RAYMOND_INPUT" >> trace; echo "<result>$(cat trace) visit $RAYMOND_VISITS</result>"
