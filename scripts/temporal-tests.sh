#!/usr/bin/env bash
# Tests runs on many machines (temporal/): recorded runs are decided again, and runs are carried out on a real server, with workers
# that are killed and networks that are cut. Installs the server first, unless it is there.
#
#   scripts/temporal-tests.sh                      all tests
#   scripts/temporal-tests.sh losses --exact       the arguments of the test programs
#   scripts/temporal-tests.sh --check              formatting, lint and licences instead, and builds the tests
set -euo pipefail
cd "$(dirname "$0")/../temporal"

if [ "${1:-}" = --check ]; then
    cargo fmt --check
    cargo clippy --locked --all-targets -- -D warnings
    ../scripts/deny.sh --here licenses bans sources
    cargo test --locked --no-run
    exit
fi
../scripts/install-temporal.sh
../scripts/install-s3.sh
exec ../scripts/tests.sh --locked -- --test-threads="${TEST_THREADS:-2}" "$@"
