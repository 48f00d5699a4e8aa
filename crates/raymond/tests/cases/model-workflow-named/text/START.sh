echo "<result>named in a text</result>"
