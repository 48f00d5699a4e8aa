cat <<'EOF'
I emit `<goto>` or <fork>, never <goto/>.
<testsuite name="t"><testcase name="c" time="0.1"/></testsuite>
<function name="f"/> <Result status="ok"/> Vec<Goto> Option<Result<Fork, Call>>
<results>1</results> <gotoo>N</gotoo> <Goto>elsewhere</Goto> <result status=ok>
EOF
echo '<result>quoted: <fork a=b>W</fork> </goto> <Goto>N</Goto></result>'
