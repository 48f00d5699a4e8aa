'<result>x</result>'
