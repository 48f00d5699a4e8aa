echo '<result>x</result>'
