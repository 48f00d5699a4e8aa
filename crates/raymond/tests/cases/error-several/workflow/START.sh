echo '<goto>START</goto><result>x</result>'
