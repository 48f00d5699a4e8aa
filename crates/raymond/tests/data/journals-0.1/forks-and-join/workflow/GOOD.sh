echo "<result>did $item</result>"
