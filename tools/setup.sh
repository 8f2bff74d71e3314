#!/usr/bin/env bash
# Installs what is missing to build Tilewright and run its tests: Debian packages, and, where no CUDA
# toolkit is found, pinned NVRTC and CUDA headers from PyPI into build/cuda. Needs root for packages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

nvrtc_version=13.0.88
runtime_version=13.0.96
packages=(g++ cmake ninja-build ccache libfmt-dev libgtest-dev libgmock-dev libbenchmark-dev llvm-14-dev
  zlib1g-dev libncurses-dev python3 python3-numpy clang-format-14)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
toolkit=""
for dir in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
  if [ -n "$dir" ] && [ -f "$dir/include/cuda.h" ] && ls "$dir"/lib64/libnvrtc.so.1[23]* >/dev/null 2>&1; then
    toolkit=$dir
    break
  fi
done
wheels_present() { ls build/cuda/lib/libnvrtc.so.* >/dev/null 2>&1 && [ -f build/cuda/include/cuda.h ]; }
if [ -z "$toolkit" ] && ! wheels_present; then
  python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
fi

if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "setup: these Debian packages are missing; run as root or install them: ${missing[*]}" >&2
    exit 1
  fi
  echo "setup: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if [ -n "$toolkit" ]; then
  echo "setup: CUDA toolkit in $toolkit"
elif ! wheels_present; then
  echo "setup: no CUDA toolkit; fetching NVRTC $nvrtc_version and the CUDA $runtime_version headers"
  download=$(mktemp -d)
  trap 'rm -rf "$download"' EXIT
  python3 -m pip download --quiet --no-deps --dest "$download" \
    "nvidia-cuda-nvrtc==$nvrtc_version" "nvidia-cuda-runtime==$runtime_version"
  for wheel in "$download"/*.whl; do python3 -m zipfile -e "$wheel" "$download/unpacked"; done
  mkdir -p build/cuda
  cp -r "$download"/unpacked/nvidia/cu13/include "$download"/unpacked/nvidia/cu13/lib build/cuda/
fi
