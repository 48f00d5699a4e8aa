echo '<ask next="START" timeout="100ms" timeout_next="LATE">hurry</ask>'
