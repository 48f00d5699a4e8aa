# raymond: fatal=agent
[ $n != 5 ] && echo '<result>ok</result>'
