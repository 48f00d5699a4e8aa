echo '<result>'$(ls -A)'</result>'
