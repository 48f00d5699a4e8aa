echo "<result>end</result>"
