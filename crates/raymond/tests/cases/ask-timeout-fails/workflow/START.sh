echo '<ask next="START" timeout="100ms">hurry</ask>'
