# raymond: timeout=4s
for i in 1 2 3 4 5 6 7 8 9 10 11; do echo . ; sleep 0.4; done; echo '<goto>SILENT</goto>'
