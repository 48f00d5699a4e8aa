# raymond: max_visits=1 nonsense=py
print('<goto>NEXT</goto>')
