print('<result>x</result>')
