echo "<reset cd='sub' delay='10ms' input='$RAYMOND_INPUT'>SPREAD</reset>"
