#!/usr/bin/env bash
# Tests runs on many machines (temporal/): recorded runs are decided again, and runs are carried out on a real server, with workers
# that are killed and networks that are cut. The dependencies take long to build, so the build is kept outside the checkout, in
# $RAYMOND_TEMPORAL_TARGET or ~/.cache/raymond-ci/temporal-target.
#
# What cannot be built in time, or has no server, is skipped, and the output says so.
set -euo pipefail
cd "$(dirname "$0")/../temporal"
export CARGO_TARGET_DIR=${RAYMOND_TEMPORAL_TARGET:-$HOME/.cache/raymond-ci/temporal-target}

cargo fmt --check
../scripts/deny.sh --here licenses bans sources
status=0
timeout 20m cargo test --locked --no-run || status=$?
if [ "$status" -eq 124 ]; then
    echo "SKIPPED: the tests of temporal/ were not built within 20 minutes" >&2
    exit 0
fi
[ "$status" -eq 0 ] || exit "$status"
../scripts/install-temporal.sh
timeout 12m cargo test --locked -- --test-threads=2
