echo '<Goto>A</Goto> <jump>B</jump> <goto> a < b <result>ok</result>'
