echo '<ask>why?</ask>'
