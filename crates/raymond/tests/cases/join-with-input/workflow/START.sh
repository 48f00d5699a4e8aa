echo '<join input="x">END</join>'
