echo '<ask next="START" timeout="1h" timeout_next="LATE">hurry</ask>'
