cat <<'TAGS'
<fork title="Mend the login" file="a.rs" next="WAIT">WORK</fork>
<fork file="b.rs" line="7" next="WAIT">WORK</fork>
<fork next="WAIT">PLAIN</fork>
TAGS
