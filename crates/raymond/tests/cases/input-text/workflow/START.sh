echo "<result>[$RAYMOND_INPUT][$(cat $RAYMOND_INPUT_FILE)]</result>"
