echo "<result>$item</result>"
