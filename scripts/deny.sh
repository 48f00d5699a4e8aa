#!/usr/bin/env bash
# Checks the dependencies with cargo-deny, as deny.toml says: licences, duplicates, sources and known vulnerabilities.
#
#   scripts/deny.sh                           all of them; fetches the list of vulnerabilities from GitHub
#   scripts/deny.sh licenses bans sources     these only; once built, it only needs crates.io
#   scripts/deny.sh --here licenses           the same for the workspace in the current folder, with its own deny.toml
#
# cargo-deny is built once and kept in $RAYMOND_CI_CACHE or ~/.cache/raymond-ci.
set -euo pipefail
if [ "${1:-}" = --here ]; then
    shift
else
    cd "$(dirname "$0")/.."
fi
version=0.20.2
folder=${RAYMOND_CI_CACHE:-$HOME/.cache/raymond-ci}/cargo-deny-$version

if [ "$("$folder/bin/cargo-deny" --version 2>/dev/null)" != "cargo-deny $version" ]; then
    echo "building cargo-deny $version into $folder"
    build=$(mktemp -d)
    trap 'rm -rf "$build"' EXIT
    # Without optimisation: optimising takes far longer than it saves. It is built in another folder first, so that an
    # interrupted build never looks complete.
    CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$build/target \
        cargo install cargo-deny --version "=$version" --locked --debug --quiet --no-track --root "$build/root"
    rm -rf "$folder"
    mkdir -p "$(dirname "$folder")"
    mv "$build/root" "$folder"
fi
"$folder/bin/cargo-deny" --locked --all-features check "$@"
