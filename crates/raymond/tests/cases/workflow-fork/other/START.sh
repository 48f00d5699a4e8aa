echo "<result>folder $item</result>"
