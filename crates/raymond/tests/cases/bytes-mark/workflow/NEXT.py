print("<result>mark</result>")
