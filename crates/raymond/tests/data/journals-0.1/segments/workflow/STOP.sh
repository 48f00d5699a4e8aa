[ -e go ] || { echo waits >&2; exit 1; }; echo "<result>$RAYMOND_INPUT</result>"
