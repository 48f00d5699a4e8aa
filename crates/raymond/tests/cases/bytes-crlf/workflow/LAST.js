console.log("<result>crlf</result>")
