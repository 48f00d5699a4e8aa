# raymond: timeout=400ms
for i in 1 2 3 4 5 6; do echo . ; sleep 0.1; done; echo '<goto>SILENT</goto>'
