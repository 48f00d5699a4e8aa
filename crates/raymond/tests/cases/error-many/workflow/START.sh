for i in 1 2 3 4 5 6; do echo "<goto>S$i</goto>"; done
