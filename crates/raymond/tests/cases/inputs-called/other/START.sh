echo "<print>other: $issue $style [${note#"$PWD"}] ${mine-nothing of the caller} ${extra-}</print>"
echo '<fork issue="own" next="END">WORKER</fork>'
