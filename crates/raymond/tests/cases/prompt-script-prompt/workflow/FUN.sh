echo '<function return="END.sh">CHILD2</function>'
