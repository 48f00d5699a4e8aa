echo "<reset cd='deep' input='$RAYMOND_INPUT $(basename "$RAYMOND_STATE_DIR")'>TWO</reset>"
