echo '<goto delay="200ms" input="in">B</goto>'
