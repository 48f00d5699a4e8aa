echo '<join next="END">END</join>'
