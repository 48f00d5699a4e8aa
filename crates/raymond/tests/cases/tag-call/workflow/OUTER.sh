echo '<call return="OUTER2">INNER</call>' $RAYMOND_INPUT
