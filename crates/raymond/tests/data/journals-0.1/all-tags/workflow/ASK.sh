echo "<ask next='ONLY' timeout='30d' timeout_next='ASK'>Go on?</ask>"
