echo '<goto cd=".">START</goto>'
