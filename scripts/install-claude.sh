#!/usr/bin/env bash
# Installs the versions of Claude Code that the tests in crates/raymond/tests/real use, unless they are there already.
# Each is a folder of its own, claude-code/VERSION in $RAYMOND_CI_CACHE or ~/.cache/raymond-ci.
set -euo pipefail
cache=${RAYMOND_CI_CACHE:-$HOME/.cache/raymond-ci}/claude-code
# Claude Code must not update itself, and must not use the home folder of the user who runs this.
user_home=$HOME
export DISABLE_AUTOUPDATER=1 HOME=$cache
versions=${*:-2.1.197 2.1.325 2.1.327}

for version in $versions; do
    folder=$cache/$version
    if [ "$("$folder/node_modules/.bin/claude" --version 2>/dev/null | cut -d' ' -f1)" = "$version" ]; then
        continue
    fi
    echo "installing Claude Code $version into $folder"
    # Installed in another folder first, so that an interrupted install never looks complete.
    rm -rf "$folder" "$folder.new"
    mkdir -p "$folder.new"
    HOME=$user_home npm install --prefix "$folder.new" --no-audit --no-fund --loglevel=error "@anthropic-ai/claude-code@$version"
    mv "$folder.new" "$folder"
    "$folder/node_modules/.bin/claude" --version
done
