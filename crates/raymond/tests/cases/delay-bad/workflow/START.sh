echo '<goto delay="soon">START</goto>'
