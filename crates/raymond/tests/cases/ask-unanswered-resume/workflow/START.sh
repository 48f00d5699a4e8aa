echo '<ask next="GOT">Which way, <b>left</b>?
Or right?</ask>'
