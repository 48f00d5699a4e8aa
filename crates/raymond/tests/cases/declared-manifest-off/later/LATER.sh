echo '<result>made later</result>'
