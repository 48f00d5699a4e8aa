echo '<result>w</result>'
