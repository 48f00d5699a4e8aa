# raymond: fatal=agent
[ $i = 2 ] && { echo bad >&2; exit 7; }; echo "<result>did $i</result>"
