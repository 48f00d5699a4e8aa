echo out; echo '<result>ok</result>'
