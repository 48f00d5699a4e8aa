seq 7; echo all done
