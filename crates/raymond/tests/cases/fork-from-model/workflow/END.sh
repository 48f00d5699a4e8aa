echo '<result>'; cat main_w1.txt main_w1_v1.txt; echo '</result>'
