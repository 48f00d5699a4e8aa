echo '<fork next="END">ANALYZE_ALL</fork><fork next="END">Worker</fork>'
