until [ -e y ]; do sleep 0.01; done; echo '<fork next="END">X1_Y</fork>'
