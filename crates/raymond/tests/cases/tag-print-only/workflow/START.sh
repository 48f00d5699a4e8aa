echo '<print>hello</print>'
