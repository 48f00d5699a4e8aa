echo '<fork i="1">W</fork><goto input="mine">END</goto><fork i="2">W</fork>'
