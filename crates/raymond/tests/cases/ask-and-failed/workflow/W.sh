echo '<ask next="GOT">well?</ask>'
