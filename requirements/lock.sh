#!/usr/bin/env bash
# Writes every lock file anew: requirements/dev.txt for this project's own .venv, and the demo engine's locks.
# Keeps the releases that are locked already; `lock.sh --upgrade` takes the newest ones.
# Hashes of all files of a release are kept, so that one lock serves x86-64 and aarch64. No index address is written.
set -euo pipefail
cd "$(dirname "$0")/.."

upgrade=${1:-}
uv=.venv-lock/bin/uv
[ -x "$uv" ] || { python3 -m venv .venv-lock && .venv-lock/bin/pip install --quiet uv==0.13.9; }

compile() { # compile OUTPUT ARGUMENTS...
  local output=$1
  shift
  "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
    ${upgrade:+"$upgrade"} --output-file "$output" "$@"
}

pin() { # pin OUTPUT REQUIREMENT...: the named releases and nothing that they need
  local output=$1
  shift
  printf '%s\n' "$@" | compile "$output" --no-deps --no-annotate -
}

locks=proof/hicache_proof/demo/locks
compile requirements/dev.txt --extra dev pyproject.toml requirements/build.in
compile requirements/sidecar.txt --extra lab --extra gpu pyproject.toml
compile "$locks/engine.txt" --override requirements/engine-overrides.txt \
  --no-emit-package torch --no-emit-package triton requirements/engine.in
pin "$locks/transformers-5.12.1.txt" transformers==5.12.1 tokenizers==0.22.2
pin "$locks/triton.txt" triton==3.9.0 # tests only: its interpreter runs the content witness's kernels
for version in 0.5.9 0.5.10 0.5.12 0.5.14 0.5.16 0.5.18 0.5.20 0.5.22 0.5.23; do
  pin "$locks/sglang-$version.txt" "sglang==$version"
done
