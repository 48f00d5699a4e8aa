echo '<result>not needed here</result>'
