touch ran; echo "<result>ok</result>"
