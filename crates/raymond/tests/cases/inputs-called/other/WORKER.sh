echo "<result>$issue $style</result>"
