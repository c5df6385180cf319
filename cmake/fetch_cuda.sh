#!/usr/bin/env bash
# What dtrain needs of NVIDIA's, without root and without a system-wide installation: compiler, runtime, cuDNN and NCCL
# from the wheels that NVIDIA publishes on PyPI. Usage: cmake/fetch_cuda.sh [FOLDER], build/cuda unless given, which is
# where the build looks. ./dtrain sources this file and fetches by itself where there is a GPU and no toolkit.

# All of one release: a newer compiler would ask for a newer driver.
cuda_wheels=(
  nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88     # to compile
  nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 nvidia-nvtx==13.0.85
  nvidia-cudnn-cu13==9.19.0.56 nvidia-nccl-cu13==2.28.9
  nvidia-cuda-nvrtc==13.0.88 nvidia-nvjitlink==13.0.88 nvidia-cublas==13.1.0.3 # that cuDNN opens when it runs
)
cuda_download='1.2 GB to download, 1.8 GB on disk'

has_gpu() { [[ -e /dev/nvidiactl ]] || nvidia-smi -L 2>/dev/null | grep '^GPU ' >/dev/null; }

fetched_nvcc() { compgen -G "$1/lib/python3*/site-packages/nvidia/cu13/bin/nvcc"; }

# Where cmake/cuda.cmake looks.
has_cuda_toolkit() {
  command -v nvcc >/dev/null || [[ -x ${CUDA_HOME:-}/bin/nvcc || -x ${CUDA_PATH:-}/bin/nvcc ]] ||
    [[ -x /usr/local/cuda/bin/nvcc ]] || fetched_nvcc "$1" >/dev/null
}

# Fills FOLDER anew; a half-filled one is never left in its place.
fetch_cuda() {
  local folder=$1 new=$1.new site
  site=$new/lib/python3/site-packages
  rm -rf "$new"
  python3 -m pip install --no-deps --only-binary=:all: --no-compile --disable-pip-version-check \
    --root-user-action=ignore --target "$site" "${cuda_wheels[@]}" || return
  # What CMake expects of a toolkit and wheels leave out.
  ln -s lib "$site/nvidia/cu13/lib64" && ln -s libcudart.so.13 "$site/nvidia/cu13/lib/libcudart.so" || return
  touch "$new/fetched" && rm -rf "$folder" && mv "$new" "$folder"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  set -euo pipefail
  folder=${1:-$(dirname "$(readlink -f "$0")")/../build/cuda}
  printf 'fetching the CUDA toolkit, cuDNN and NCCL from PyPI into %s (%s)\n' "$folder" "$cuda_download"
  mkdir -p "$(dirname "$folder")"
  fetch_cuda "$folder"
  printf 'done: %s\n' "$(fetched_nvcc "$folder")"
fi
