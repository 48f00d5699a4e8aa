set -u
echo "<print>$issue $style $in_time [$ratio] $(cat "$notes") ${notes#"$PWD"}</print>"
echo '<fork style="own" next="WAIT">WORKER</fork>'
