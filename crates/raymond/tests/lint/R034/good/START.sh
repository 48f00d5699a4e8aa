open='<fork item='   # a tag in pieces
echo "<fork item=\"$1\">WORK</fork>"
echo '<fork item="'"$2"'">WORK</fork>'
echo "<fork item=${3@Q}>WORK</fork>" "$(jq -r ".a" "<goto x=1>")"
echo '<fork cd=x>' > notes.txt
echo 'Vec<Goto> <function name="f"/> <Result status="ok"/>'
cat <<EOF
<goto>NEXT</goto>
EOF
