echo '<result>b</result>'
