# raymond: timeot=3s
[ $RAYMOND_VISITS = 2 ] && echo '<result>ok</result>' || echo '<goto>START</goto>'
