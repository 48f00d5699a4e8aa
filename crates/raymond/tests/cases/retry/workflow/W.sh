echo "$RAYMOND_AGENT_ID" >> ran
[ -e fixed ] && echo '<result>done</result>' || exit 7
