# The daily commands. `just` alone lists them.

set shell := ["bash", "-euo", "pipefail", "-c"]

_list:
    @just --list --unsorted

# Run a workflow with a fresh build: just run examples/review-loop
run *ARGS:
    cargo run -- {{ARGS}}

# All tests that need nothing but this repository
test *ARGS:
    cargo test --workspace {{ARGS}}

# Formatting and lint
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# What has to hold before anything lands; builds cargo-deny the first time, and fetches Claude Code from npm
ci:
    .ci/run

# Licences, duplicates, sources and known vulnerabilities of the dependencies; or some of it: just deny licenses bans sources
deny *CHECKS:
    scripts/deny.sh {{CHECKS}}

# The manifests in deploy/kubernetes against the schemas of Kubernetes and KEDA; builds the checker the first time, needs Go
manifests:
    scripts/check-manifests.sh

# One case folder of crates/raymond/tests/cases, or all of them
case NAME="":
    {{ if NAME == "" { "" } else { "CASE=" + NAME } }} cargo test -p raymond --test it cases

# Write anew what the case folders, the manual pages and the table of lint rules should hold; look at the diff
update:
    UPDATE=1 cargo test -p raymond --test it
    UPDATE_EXPECT=1 cargo test -p raymond-core

# Fresh seeds for the simulation
simulate SECONDS="600":
    cargo run --release -p simulation -- --seconds {{SECONDS}}

# One fuzz target for so long; needs `cargo install cargo-fuzz`
fuzz TARGET SECONDS="600":
    mkdir -p fuzz/found/{{TARGET}}
    RUSTC_BOOTSTRAP=1 cargo fuzz run {{TARGET}} fuzz/found/{{TARGET}} fuzz/corpus/{{TARGET}} -- -max_total_time={{SECONDS}} -max_len=8192

# All fuzz targets, one after the other
fuzz-all SECONDS="600":
    for target in $(cargo fuzz list); do just fuzz "$target" {{SECONDS}}; done

# Build for Windows and try it under Wine
windows:
    scripts/windows.sh

# Measure, and write docs/benchmarks.md
bench *ARGS:
    cargo run --profile dist -p raymond-bench -- {{ARGS}}

# Put this version on your PATH
install:
    cargo install --locked --path crates/raymond
