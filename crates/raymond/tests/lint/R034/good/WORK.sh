echo '<result>'
date
echo '</result>'
