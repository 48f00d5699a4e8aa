echo '<ask next="C" timeout="1s" timeout_next="NOWHERE">why?</ask>'
