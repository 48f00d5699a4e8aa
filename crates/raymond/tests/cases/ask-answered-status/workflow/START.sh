echo '<ask next="GOT">Go on?</ask>'
