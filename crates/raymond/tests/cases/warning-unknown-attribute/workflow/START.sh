echo '<goto colour="red">END</goto>'
