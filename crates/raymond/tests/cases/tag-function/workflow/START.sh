echo '<function return="END" input="x">WORK</function>'
