echo '<fork next="END" PATH="x">END</fork>'
