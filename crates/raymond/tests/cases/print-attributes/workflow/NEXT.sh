echo '<print cd="/x">hello</print><result>done</result>'
