echo '<goto delay="0s">B</goto>'
