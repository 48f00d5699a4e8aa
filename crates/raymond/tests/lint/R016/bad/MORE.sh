# raymond: rety=3
echo '<result>x</result>'
