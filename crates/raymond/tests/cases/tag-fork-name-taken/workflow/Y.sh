touch y; echo '<result>ok</result>'
