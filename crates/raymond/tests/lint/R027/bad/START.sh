TOKEN=sk-ant-not-a-real-key-0123456789
echo '<result>x</result>'
