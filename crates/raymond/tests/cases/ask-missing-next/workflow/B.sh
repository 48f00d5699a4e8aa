echo '<ask next="NOWHERE">why?</ask>'
