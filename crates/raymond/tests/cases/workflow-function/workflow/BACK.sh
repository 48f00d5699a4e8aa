case $PWD in */deep) here=moved;; *) here=home;; esac
echo "<result>$RAYMOND_INPUT, then $(basename "$RAYMOND_STATE_DIR") $here</result>"
