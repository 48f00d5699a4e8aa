echo '<fork next="A">A</fork><fork next="A">B</fork>'
