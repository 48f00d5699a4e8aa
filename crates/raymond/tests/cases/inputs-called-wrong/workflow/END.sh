echo '<result>end</result>'
