echo "<call return=\"WORKER2\">WORKER3</call> $RAYMOND_INPUT"
