echo '<print>p</print><goto odd="1">END</goto>'
