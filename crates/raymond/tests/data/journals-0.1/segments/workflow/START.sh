text=$(head -c 60000 /dev/zero | tr '\0' x)
for i in $(seq 142); do echo "<print>$i $text</print>"; done
echo "<fork item='a'>WORK</fork><goto input='on'>MIDDLE</goto>"
