echo "<ask next='GOT'>number $i?</ask>"
