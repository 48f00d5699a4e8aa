echo '<fork>A</fork>'
