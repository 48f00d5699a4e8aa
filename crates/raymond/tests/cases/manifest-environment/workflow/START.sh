echo "<fork next='JOIN' PORT='1'>WORKER</fork>"
