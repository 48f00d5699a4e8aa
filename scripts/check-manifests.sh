#!/usr/bin/env bash
# Checks the manifests in deploy/kubernetes against the schemas of Kubernetes and KEDA, without a cluster. Needs Go. The checker takes
# minutes to build; it is kept outside the checkout, as manifests in $RAYMOND_CI_CACHE or ~/.cache/raymond-ci.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${RAYMOND_CI_CACHE:-$HOME/.cache/raymond-ci}/manifests
checker=v0.0.4
keda=v2.17.0
# The newest version of Kubernetes whose schemas the checker has in it.
kubernetes=1.30

if [ ! -x "$cache/kubectl-validate" ]; then
    mkdir -p "$cache"
    GOBIN=$cache go install "sigs.k8s.io/kubectl-validate@$checker"
fi
module=$(cd /tmp && go mod download -json "github.com/kedacore/keda/v2@$keda" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
"$cache/kubectl-validate" deploy/kubernetes --local-crds "$module/config/crd/bases" --version "$kubernetes"
