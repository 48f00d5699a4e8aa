echo '<result input="x">y</result>'
