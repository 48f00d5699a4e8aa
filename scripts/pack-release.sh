#!/usr/bin/env bash
# Packs the program that was built for a target, with its manual pages, licences and README.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?"usage: scripts/pack-release.sh VERSION TARGET OUT"}
target=${2:?"which target?"}
out=${3:?"where to?"}

name=raymond-$version-$target
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/$name/man" "$out"
cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$folder/$name/"
cp docs/man/*.1 "$folder/$name/man/"
case $target in
*windows*)
    cp "target/$target/dist/raymond.exe" "$folder/$name/"
    if command -v zip >/dev/null; then
        (cd "$folder" && zip -qr - "$name") > "$out/$name.zip"
    else
        (cd "$folder" && 7z a -bso0 "$name.zip" "$name") && mv "$folder/$name.zip" "$out/"
    fi
    ;;
*)
    cp "target/$target/dist/raymond" "$folder/$name/"
    tar -C "$folder" -czf "$out/$name.tar.gz" "$name"
    ;;
esac
echo "$out/$name"
