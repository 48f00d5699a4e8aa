#!/usr/bin/env bash
# Runs `cargo test` with the given arguments, in the current folder, so that it cannot be green for a wrong reason. A test that fails,
# hangs, crashes, is skipped, or fails and passes when it is run again turns it red and is named: scripts/test-runner.py says how. At
# the end stand the slowest tests and all that did not pass.
#
#   scripts/tests.sh --workspace
#   scripts/tests.sh -p raymond --test it stopping
#
# A test may take $RAYMOND_TEST_LIMIT seconds. With $RAYMOND_TEST_REPORT the time of each test is appended to that file.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
report=${RAYMOND_TEST_REPORT:-$folder/report}
export RAYMOND_TEST_REPORT=$report RAYMOND_NO_SKIPS=1 CARGO_TERM_COLOR=never
touch "$report"
before=$(wc -l < "$report")

status=0
"$here/test-runner.py" --check-list || status=1
# Cargo has this program run the tests. The link has no blank in its path, which Cargo would divide.
ln -s "$here/test-runner.py" "$folder/test-runner"
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
env "CARGO_TARGET_${host}_RUNNER=$folder/test-runner" cargo test --no-fail-fast "$@" || status=$?

tail -n "+$((before + 1))" "$report" > "$folder/own"
[ -s "$folder/own" ] || { echo "error: no test was run"; exit 1; }
echo "The slowest tests, in seconds:"
sort -t $'\t' -k4,4nr "$folder/own" | head -20 | awk -F '\t' '{ printf "%8.1f  %s::%s\n", $4, $1, $2 }'
echo "Tests by how they ended:"
cut -f3 "$folder/own" | sort | uniq -c
awk -F '\t' '$3 != "passed" && $3 != "on demand" { printf "%s: %s::%s\n", $3, $1, $2 }' "$folder/own"
exit "$status"
