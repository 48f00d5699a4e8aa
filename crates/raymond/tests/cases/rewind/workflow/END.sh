echo END >> ran
echo "<result>$(tr '\n' ' ' < ran)</result>"
