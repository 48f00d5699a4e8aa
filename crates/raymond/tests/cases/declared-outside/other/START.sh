echo '<result>from outside</result>'
