echo '<ask next="START">why?</ask>'
