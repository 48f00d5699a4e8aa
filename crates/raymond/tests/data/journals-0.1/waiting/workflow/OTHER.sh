echo "<ask next='DONE'>And how?</ask>"
