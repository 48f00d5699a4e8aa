#!/usr/bin/env bash
# Installs the S3 server that one of the tests in temporal/ uses (moto, from PyPI), unless it is there already. It is kept
# outside the checkout, as s3 in $RAYMOND_CI_CACHE or ~/.cache/raymond-ci. Needs Python.
set -euo pipefail
cache=${RAYMOND_CI_CACHE:-$HOME/.cache/raymond-ci}/s3
version=5.2.5

[ ! -x "$cache/bin/moto_server" ] || exit 0
echo "installing an S3 server (moto $version) into $cache"
rm -rf "$cache"
# A virtual environment cannot be moved, so one that was not finished is removed.
if ! { python3 -m venv "$cache" && "$cache/bin/pip" install --quiet --disable-pip-version-check "moto[s3]==$version" flask flask-cors; }; then
    rm -rf "$cache"
    echo "MISSING: the S3 server (moto $version, from PyPI) cannot be installed here" >&2
    exit 1
fi
