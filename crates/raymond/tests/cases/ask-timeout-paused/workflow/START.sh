echo '<ask next="START" timeout="2s" timeout_next="LATE">hurry</ask>'
