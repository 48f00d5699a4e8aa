echo '<ask next="D" input="x">why?</ask>'
