echo "<result>$(cat seen) then $RAYMOND_RESULT</result>"
