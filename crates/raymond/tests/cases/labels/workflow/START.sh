echo '<result>ok</result>'
