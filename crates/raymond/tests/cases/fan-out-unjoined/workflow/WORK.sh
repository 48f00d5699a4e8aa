# raymond: fatal=agent
[ $n != 3 ] && echo "<result>ok</result>"
