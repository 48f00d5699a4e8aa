echo "<result>named in a policy</result>"
