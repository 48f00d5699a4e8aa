#!/usr/bin/env bash
# Tests scripts/tests.sh itself, on a package with tests that pass, fail, hang, crash, are skipped, and fail only once. Takes seconds.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir src tests
cat > Cargo.toml <<'T'
[package]
name = "sample"
version = "0.0.0"
edition = "2021"
[lib]
test = false
doctest = false
[workspace]
T
: > src/lib.rs
also='#[test] fn another() {}'
echo "$also" > tests/passes.rs
echo "$also #[test] fn culprit() { panic!(\"the reason\") }" > tests/fails.rs
echo "$also #[test] fn culprit() { std::process::Command::new(\"sleep\").arg(\"4321\").status().unwrap(); }" > tests/hangs.rs
echo "$also #[test] fn culprit() { std::process::abort() }" > tests/crashes.rs
echo "$also #[test] #[ignore] fn culprit() {}" > tests/skipped.rs
echo "$also #[test] #[ignore = \"on demand: takes long\"] fn culprit() {}" > tests/asked_for.rs
# It fails when there is no such file, and makes it.
echo "$also #[test] fn culprit() { assert!(std::fs::File::create_new(std::env::var(\"SEEN\").unwrap()).is_err()) }" > tests/flaky.rs
export CARGO_TARGET_DIR=$folder/target RAYMOND_TEST_LIMIT=3 RAYMOND_FLAKY_TESTS=$folder/list
unset RAYMOND_TEST_REPORT
tomorrow=$(date -d tomorrow +%F) yesterday=$(date -d yesterday +%F)
failures=0

# expect LIST COLOUR PROGRAM TEXT …: how it ends, and what is in its output.
expect() {
    local list=$1 colour=$2 program=$3 status=0 text
    shift 3
    printf '%s\n' "$list" > list
    rm -f seen
    SEEN=$folder/seen "$here/tests.sh" --quiet --test "$program" > output 2>&1 || status=$?
    [ "$status" = 0 ] && status=green || status=red
    local told=()
    [ "$status" = "$colour" ] || told+=("$status, and not $colour")
    for text in "$@" 'test another ... ok' 'test result: '; do
        grep -qF -- "$text" output || told+=("not in the output: $text")
    done
    if [ ${#told[@]} -gt 0 ]; then
        failures=$((failures + 1))
        printf 'tests.sh with %s.rs and the list "%s": %s\n' "$program" "$list" "${told[@]}"
        sed 's/^/    | /' output
    else
        echo "ok: $program.rs is $colour${list:+ with the list \"$list\"}"
    fi
}

expect '' green passes 'test result: ok. 1 passed; 0 failed; 0 ignored' 'The slowest tests'
expect '' red fails 'FAILED: fails::culprit' 'the reason' 'test result: FAILED. 1 passed; 1 failed;'
expect '' red hangs 'HUNG: hangs::culprit' 'sleep 4321' 'test result: FAILED. 1 passed; 1 failed;'
expect '' red crashes 'CRASHED: crashes::culprit' 'SIGABRT'
expect '' red skipped 'SKIPPED: skipped::culprit'
expect '' green asked_for 'test result: ok. 1 passed; 0 failed; 1 ignored'
expect '' red flaky 'FLAKY: flaky::culprit'
expect "$tomorrow flaky::culprit a known defect" green flaky 'flaky, which is known: flaky::culprit'
expect "$tomorrow fails::culprit a known defect" red fails 'FAILED: fails::culprit'
expect "$yesterday flaky::culprit a known defect" red passes 'is over'
expect "$(for n in 1 2 3 4; do echo "$tomorrow flaky::n$n a habit"; done)" red passes '4 tests are listed'
if pgrep -f '^sleep 4321$' > /dev/null; then
    failures=$((failures + 1))
    echo "what a hanging test started is still running"
fi
[ "$failures" = 0 ]
