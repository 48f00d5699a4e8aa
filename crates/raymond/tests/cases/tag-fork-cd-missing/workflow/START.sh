echo '<fork next="A" cd="gone">A</fork>'
