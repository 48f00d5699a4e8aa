echo '<ask next="END">Go on?</ask>'
