echo '<goto input="a" input="b">START</goto>'
