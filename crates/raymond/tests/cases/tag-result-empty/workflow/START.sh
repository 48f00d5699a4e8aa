echo '<result></result>'
