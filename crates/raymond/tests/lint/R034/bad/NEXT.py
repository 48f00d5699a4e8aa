print(f'<fork cd="x"y">WORK</fork>')
print('<goto>END</goto>')
