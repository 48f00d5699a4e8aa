echo '<result>unused</result>'
