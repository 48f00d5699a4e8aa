echo '<ask next="START" timeout="200ms" timeout_next="LATE">hurry</ask>'
