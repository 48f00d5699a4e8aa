echo '<goto delay="-1s">START</goto>'
