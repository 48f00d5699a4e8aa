#!/usr/bin/env bash
# Runs `cargo test` with the given arguments, then each test that failed once more, alone. A test that passes alone failed by chance:
# a busy machine, or a program that is not ours. That is a defect of the test or of Raymond and has to be mended, but it says
# nothing about the change at hand, so it is named in lines that begin with FLAKY and does not count as a failure.
#
#   scripts/tests.sh --workspace
#   scripts/tests.sh --locked -- --skip replay
#
# With $TEST_SECONDS the first run may take that long; the exit code is then 124, as that of `timeout`.
set -uo pipefail
# More than this is no chance.
most=3
export CARGO_TERM_COLOR=never

log=$(mktemp)
trap 'rm -f "$log"' EXIT
timeout "${TEST_SECONDS:-0}" cargo test --no-fail-fast "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
[ "$status" -ne 0 ] && [ "$status" -ne 124 ] || exit "$status"

# A test program that crashed, or code that does not compile, has no list of failed tests that could be trusted.
mapfile -t failed < <(sed -n 's/^test \(.*[^ ]\) *\.\.\. FAILED$/\1/p' "$log")
programs=$(grep -c '^test result: FAILED' "$log")
targets=$(sed -n 's/^error: \([0-9]*\) targets\? failed:$/\1/p' "$log")
counted=$(sed -n 's/^test result: FAILED.* \([0-9]*\) failed;.*/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
if [ "${#failed[@]}" -eq 0 ] || [ "${#failed[@]}" -gt "$most" ] || [ "${#failed[@]}" != "$counted" ] || [ "$programs" != "$targets" ]; then
    exit "$status"
fi

# What chooses tests, after `--`, is replaced by the name.
options=()
for argument in "$@"; do
    [ "$argument" != -- ] || break
    options+=("$argument")
done
for name in "${failed[@]}"; do
    echo "Once more, alone: $name"
    cargo test --no-fail-fast "${options[@]}" -- --exact "$name" 2>&1 | tee "$log" | grep -v '^running 0 tests$'
    # One pass and no failure: a name that no test has would pass too.
    [ "${PIPESTATUS[0]}" -eq 0 ] && grep -q '^test result: ok\. [1-9][0-9]* passed' "$log" || exit "$status"
done
printf 'FLAKY: %s failed once and passed alone\n' "${failed[@]}"
