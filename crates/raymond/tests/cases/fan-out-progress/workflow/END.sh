echo '<result>done</result>'
