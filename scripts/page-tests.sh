#!/usr/bin/env bash
# Tests the page of `raymond serve` in a real browser: playwright-core drives Debian's chromium, axe-core looks for barriers.
# The packages are kept outside the checkout. Where there is no browser, and none can be installed, that is an error.
#
#   scripts/page-tests.sh                  all tests
#   scripts/page-tests.sh flow past        those of flow.test.js and past.test.js
#   scripts/page-tests.sh install          installs what they need
#   scripts/page-tests.sh pictures         takes the pictures in docs/pictures again
set -euo pipefail
cd "$(dirname "$0")/.."
tests=crates/raymond/tests/page
# A test that takes longer has hung.
limit_ms=480000

missing() {
  echo "MISSING: the page cannot be tested here: $1" >&2
  exit 1
}

command -v node >/dev/null || missing "node is not installed"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || missing "node 20 or later is needed"

CHROMIUM="${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}"
if [ -z "$CHROMIUM" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  log=$(mktemp)
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qqy chromium) >"$log" 2>&1 || cat "$log" >&2
  rm -f "$log"
  CHROMIUM="$(command -v chromium || true)"
fi
[ -n "$CHROMIUM" ] || missing "chromium is not installed, and apt-get did not install it"
export CHROMIUM

# The packages, as the lock file has them.
version=$(sha256sum "$tests/package-lock.json" | cut -c1-16)
modules="${RAYMOND_CI_CACHE:-$HOME/.cache/raymond-ci}/page-$version"
if [ ! -d "$modules/node_modules/playwright-core" ]; then
  rm -rf "$modules" && mkdir -p "$modules"
  cp "$tests/package.json" "$tests/package-lock.json" "$modules/"
  (cd "$modules" && npm ci --ignore-scripts --no-audit --no-fund --silent) || { rm -rf "$modules"; missing "npm could not fetch the packages"; }
fi
export PAGE_TEST_MODULES="$modules"
[ "${1:-}" != install ] || exit 0

cargo build --quiet -p raymond -p fake-claude
# A folder of builds may be named relative to this one, or as a whole path.
target=$(realpath "${CARGO_TARGET_DIR:-target}")
export RAYMOND_PROGRAMS="${RAYMOND_PROGRAMS:-$target/debug}"

if [ "${1:-}" = pictures ]; then
  exec node "$tests/pictures.js"
fi
files=()
for name in "$@"; do files+=("$tests/$name.test.js"); done
[ ${#files[@]} -gt 0 ] || files=("$tests"/*.test.js)
# One file at a time: each has a browser and a server of its own.
output=$(mktemp)
trap 'rm -f "$output"' EXIT
node --test --test-concurrency=1 --test-timeout="$limit_ms" --test-reporter=spec "${files[@]}" | tee "$output"
# Node counts what was skipped as passed.
grep -Eq '^ℹ skipped 0$' "$output" && grep -Eq '^ℹ todo 0$' "$output" || { echo "error: tests of the page were skipped" >&2; exit 1; }
