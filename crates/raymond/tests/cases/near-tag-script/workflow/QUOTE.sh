cat <<'EOF'
<fork file="a">W</fork>
<fork file="b"c">W</fork>
<goto>N</goto>
EOF
