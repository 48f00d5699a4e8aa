echo '<result>inner</result>'
