#!/usr/bin/env bash
# Tests the page of `raymond serve` in a real browser: playwright-core drives Debian's chromium, axe-core looks for barriers.
# The packages are kept outside the checkout. Where there is no browser, and none can be installed, the tests are skipped,
# and this says so; with RAYMOND_PAGE_TESTS=required that is an error.
#
#   scripts/page-tests.sh                  all tests
#   scripts/page-tests.sh flow past        those of flow.test.js and past.test.js
#   scripts/page-tests.sh pictures         takes the pictures in docs/pictures again
set -euo pipefail
cd "$(dirname "$0")/.."
tests=crates/raymond/tests/page

skip() {
  echo "SKIPPED: the tests of the page: $1" >&2
  [ "${RAYMOND_PAGE_TESTS:-}" != required ] || exit 1
  exit 0
}

command -v node >/dev/null || skip "node is not installed"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || skip "node 20 or later is needed"

CHROMIUM="${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}"
if [ -z "$CHROMIUM" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qqy chromium) >/dev/null 2>&1 || true
  CHROMIUM="$(command -v chromium || true)"
fi
[ -n "$CHROMIUM" ] || skip "chromium is not installed"
export CHROMIUM

# The packages, as the lock file has them.
version=$(sha256sum "$tests/package-lock.json" | cut -c1-16)
modules="${XDG_CACHE_HOME:-$HOME/.cache}/raymond-ci/page-$version"
if [ ! -d "$modules/node_modules/playwright-core" ]; then
  rm -rf "$modules" && mkdir -p "$modules"
  cp "$tests/package.json" "$tests/package-lock.json" "$modules/"
  (cd "$modules" && npm ci --ignore-scripts --no-audit --no-fund --silent) || { rm -rf "$modules"; skip "npm could not fetch the packages"; }
fi
export PAGE_TEST_MODULES="$modules"

cargo build --quiet -p raymond -p fake-claude
export RAYMOND_PROGRAMS="${RAYMOND_PROGRAMS:-$PWD/${CARGO_TARGET_DIR:-target}/debug}"

if [ "${1:-}" = pictures ]; then
  exec node "$tests/pictures.js"
fi
files=()
for name in "$@"; do files+=("$tests/$name.test.js"); done
[ ${#files[@]} -gt 0 ] || files=("$tests"/*.test.js)
# One file at a time: each has a browser and a server of its own.
exec node --test --test-concurrency=1 "${files[@]}"
