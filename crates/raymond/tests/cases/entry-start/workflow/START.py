print('<result>ok</result>')
