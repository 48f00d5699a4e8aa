# raymond: max_visits=1 odd=1
printf "\xef\xbb\xbf<goto>NEXT</goto>"
