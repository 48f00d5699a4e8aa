echo '<fork next="A">A</fork><fork next="B">A</fork>'
