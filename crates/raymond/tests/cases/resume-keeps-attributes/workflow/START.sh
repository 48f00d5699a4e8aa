mkdir -p sub; echo '<fork next="END" item="a &quot;b&quot;" cd="sub" input="in">W</fork>'
