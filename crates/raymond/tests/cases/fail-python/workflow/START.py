print('<result>ok</result>')
raise SystemExit(2)
