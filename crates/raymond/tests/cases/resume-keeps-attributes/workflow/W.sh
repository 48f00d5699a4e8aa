# raymond: fatal=agent
[ -e ../go ] || exit 1; echo "<result>$item $(basename "$PWD") $RAYMOND_INPUT</result>"
