echo '<ask next="A" timeout="1ms" timeout_next="B">Go on?</ask>'
