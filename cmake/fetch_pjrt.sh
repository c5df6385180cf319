#!/usr/bin/env bash
# What the TPU backend is built and tested with: the header of PJRT, and a plugin that runs it on the processor. Both come
# in one wheel from PyPI. Usage: cmake/fetch_pjrt.sh [FOLDER], $DTRAIN_PJRT or build/pjrt unless given, which is where
# the build looks. ./dtrain and tests/run source this file and fetch by themselves. Training on a TPU takes `pip install
# libtpu` beside it (docs/tpu.md).

pjrt_wheel=xla-cpu-pjrt==0.0.1
pjrt_download='63 MB to download, 260 MB on disk'

has_pjrt() { [[ -f $1/xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h ]]; }

# Fills FOLDER anew; a half-filled one is never left in its place. Gives up after SECONDS.
fetch_pjrt() {
  local folder=$1 seconds=${2:-600} new=$1.new
  rm -rf "$new"
  timeout "$seconds" python3 -m pip install --no-deps --only-binary=:all: --no-compile --disable-pip-version-check \
    --root-user-action=ignore --retries 1 --timeout 10 --target "$new" "$pjrt_wheel" || return
  has_pjrt "$new" && touch "$new/fetched" && rm -rf "$folder" && mv "$new" "$folder"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  set -euo pipefail
  folder=${1:-${DTRAIN_PJRT:-$(dirname "$(readlink -f "$0")")/../build/pjrt}}
  printf 'fetching the header of PJRT and a plugin for the processor from PyPI into %s (%s)\n' "$folder" "$pjrt_download"
  mkdir -p "$(dirname "$folder")"
  fetch_pjrt "$folder"
  printf 'done: %s\n' "$folder/xla_plugins/xla_cpu_pjrt"
fi
