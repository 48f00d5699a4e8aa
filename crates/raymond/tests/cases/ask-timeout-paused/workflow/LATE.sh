echo '<result>late</result>'
