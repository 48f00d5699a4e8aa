#!/usr/bin/env bash
# Installs the versions of the other agent programs that the tests in crates/raymond/tests/real use, unless they are
# there already. Each is a folder of its own, agents/KIND/VERSION in $RAYMOND_CI_CACHE or ~/.cache/raymond-ci: together
# they are more than a gigabyte, so they are kept outside the checkout. Give kinds as arguments to install only those.
#
# A program that cannot be installed is named, the others are installed, and the exit code is 1.
set -euo pipefail
cache=${RAYMOND_CI_CACHE:-$HOME/.cache/raymond-ci}/agents

# Kind, version, package, and the oldest Node that it runs with. Where the machine's is older, one is installed beside it:
# npm would otherwise install the program and only warn.
agents="
codex    0.166.0 @openai/codex                    16
codex    0.169.0 @openai/codex                    16
gemini   0.61.0  @google/gemini-cli               20
pi       0.87.1  @earendil-works/pi-coding-agent  22
opencode 1.18.33 opencode-ai                      0
copilot  1.0.102 @github/copilot                  16
"
node=$(node --version 2>/dev/null | sed 's/^v//; s/\..*//')

install() {
    local kind=$1 version=$2 package=$3 oldest_node=$4
    local own_node=()
    [ "${node:-0}" -ge "$oldest_node" ] || own_node=(node@24)
    local folder=$cache/$kind/$version
    [ ! -e "$folder/node_modules/.bin/$kind" ] || return 0
    echo "installing $kind $version into $folder"
    # Installed in another folder first, so that an interrupted install never looks complete.
    rm -rf "$folder" "$folder.new"
    mkdir -p "$folder.new"
    npm install --prefix "$folder.new" --no-audit --no-fund --loglevel=error "$package@$version" "${own_node[@]}" &&
        mv "$folder.new" "$folder"
}

status=0
while read -r kind version package oldest_node; do
    [ -n "$kind" ] || continue
    [ $# -eq 0 ] || [[ " $* " == *" $kind "* ]] || continue
    install "$kind" "$version" "$package" "$oldest_node" || { echo "MISSING: $kind $version cannot be installed here" >&2; status=1; }
done <<<"$agents"
exit $status
