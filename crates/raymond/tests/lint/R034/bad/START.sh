cat <<'EOF'
<fork file="a">WORK</fork>
<fork file="b"c">WORK</fork>
<fork file="d">WORK
EOF
echo "<fork item=$1>WORK</fork>"
printf '<Goto>NEXT</Goto>\n'
echo '<goto>NEXT</goto>'
