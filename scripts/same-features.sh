#!/usr/bin/env bash
# README's second command builds only what the first has not: this fails if a dependency of the program gets other features in the
# tests. Cargo would build it anew there, with everything above it.
set -euo pipefail
cd "$(dirname "$0")/.."
features() { cargo tree --locked "$@" --prefix none --format '{p}|{f}' | sed 's/ (\*)$//; s/ (proc-macro)//' | sort -u; }
differing=$(comm -23 <(features -p raymond -e normal,build) <(features --workspace -e normal,build,dev))
[ -n "$differing" ] || exit 0
echo "error: the tests want other features of these; list them in the program's Cargo.toml, too:" >&2
echo "$differing" >&2
exit 1
