echo "<result>worked $item</result>"
