# raymond: timeout=0 max_time=0
sleep 0.4
echo '<result>ok</result>'
