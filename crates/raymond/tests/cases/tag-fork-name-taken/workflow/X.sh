echo '<fork next="END">Y</fork><fork next="END">Y</fork>'
