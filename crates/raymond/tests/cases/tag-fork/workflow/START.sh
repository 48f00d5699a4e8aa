mkdir -p sub; echo '<fork next="PARENT" cd="sub" input="in" item="a &amp; b" N="1">WORKER</fork>'
