echo "<reset>WORKER4</reset>"
