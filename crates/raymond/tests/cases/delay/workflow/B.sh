echo "<reset delay='1ms' input='$RAYMOND_INPUT again'>C</reset>"
