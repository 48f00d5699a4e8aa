#!/usr/bin/env bash
# Tests runs on many machines (temporal/): recorded runs are decided again, and runs are carried out on a real server, with workers
# that are killed and networks that are cut. The dependencies take long to build, so the build is kept outside the checkout, in
# $RAYMOND_TEMPORAL_TARGET or ~/.cache/raymond-ci/temporal-target.
#
#   scripts/temporal-tests.sh [SECONDS]     how long it may take; 40 minutes if left out
#
# What cannot be built in time, or has no server, is skipped, and the output says so.
set -euo pipefail
cd "$(dirname "$0")/../temporal"
export CARGO_TARGET_DIR=${RAYMOND_TEMPORAL_TARGET:-$HOME/.cache/raymond-ci/temporal-target}
limit=${1:-2400}
# The tests with the server take some six minutes, and as much again on a busy machine.
for_tests=600

cargo fmt --check
../scripts/deny.sh --here licenses bans sources
if [ "$limit" -lt 60 ]; then
    echo "SKIPPED: no time is left for the tests of temporal/" >&2
    exit 0
fi
status=0
# With the benchmark, which is only built here.
timeout "$limit" cargo test --locked --no-run --all-targets || status=$?
if [ "$status" -eq 124 ]; then
    echo "SKIPPED: the tests of temporal/ were not built within $limit seconds" >&2
    exit 0
fi
[ "$status" -eq 0 ] || exit "$status"
cargo test --locked replay
timeout "$((limit > SECONDS ? limit - SECONDS : 1))" ../scripts/install-temporal.sh || status=$?
timeout "$((limit > SECONDS ? limit - SECONDS : 1))" ../scripts/install-s3.sh || status=$?
if [ "$status" -ne 0 ] || [ $((limit - SECONDS)) -lt "$for_tests" ]; then
    echo "SKIPPED: no time is left for the tests of temporal/ with a server" >&2
    exit 0
fi
TEST_SECONDS=$((limit - SECONDS)) ../scripts/tests.sh --locked -- --test-threads=2 --skip replay || status=$?
if [ "$status" -eq 124 ]; then
    echo "SKIPPED: the tests of temporal/ with a server did not end in the time that was left" >&2
    exit 0
fi
exit "$status"
