echo '<result>main is done</result>'
