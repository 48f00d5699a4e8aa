echo '<result>a</result>'
