#!/usr/bin/env bash
# Prints a version's part of the changelog. Fails if there is none, or if Cargo.toml has another version.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?"usage: scripts/release-notes.sh VERSION"}

packaged=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
if [ "$packaged" != "$version" ]; then
    echo "Cargo.toml says $packaged, not $version" >&2
    exit 1
fi

notes=$(awk -v heading="## [$version]" '
    index($0, "## [") == 1 { inside = index($0, heading) == 1; next }
    inside' CHANGELOG.md)
if [ -z "${notes//[[:space:]]/}" ]; then
    echo "CHANGELOG.md has nothing under \"## [$version]\"" >&2
    exit 1
fi
printf '%s\n' "$notes"
