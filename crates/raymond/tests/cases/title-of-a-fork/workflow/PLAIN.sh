echo '<result>plain</result>'
