echo '<fork next="A">A</fork><result>x</result>'
