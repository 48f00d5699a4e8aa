echo '<goto input>B</goto>'
