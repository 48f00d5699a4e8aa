#!/usr/bin/env bash
# Builds the Temporal server that the tests in temporal/ use, unless it is there already: one program, with a server for
# development. It is kept outside the checkout, as temporal in $RAYMOND_CI_CACHE or ~/.cache/raymond-ci. Needs Go.
set -euo pipefail
cache=${RAYMOND_CI_CACHE:-$HOME/.cache/raymond-ci}/temporal
# Later versions cannot be installed like this: their module replaces others.
version=v1.5.1

[ ! -x "$cache/temporal" ] || exit 0
if ! command -v go >/dev/null; then
    echo "MISSING: the Temporal server cannot be built here: there is no Go" >&2
    exit 1
fi
echo "building the Temporal server $version into $cache"
rm -rf "$cache.new"
mkdir -p "$cache.new"
if GOBIN=$cache.new go install "github.com/temporalio/cli/cmd/temporal@$version"; then
    rm -rf "$cache"
    mv "$cache.new" "$cache"
else
    rm -rf "$cache.new"
    echo "MISSING: the Temporal server $version (Go modules) cannot be built here" >&2
    exit 1
fi
