# raymond: timeout=1s
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do echo . ; sleep 0.1; done; echo '<goto>SILENT</goto>'
