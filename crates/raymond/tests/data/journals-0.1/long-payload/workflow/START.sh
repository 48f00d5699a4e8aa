text=$(head -c 70000 /dev/zero | tr '\0' y)
echo "<goto input='$text'>NEXT</goto>"
