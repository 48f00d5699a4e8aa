from xml.sax.saxutils import quoteattr
print(f"<fork item={quoteattr('a')}>WORK</fork>")
print('<goto input="' + 'b'.replace('"', '&quot;') + '">WORK</goto>')
