#!/usr/bin/env bash
# Configures and builds a preset (default release), quietly unless it fails.
#   tools/build.sh [preset] [target …]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:-release}
shift || true
launcher=()
if command -v ccache >/dev/null; then
  export CCACHE_SLOPPINESS=pch_defines,time_macros  # else nothing that uses a precompiled header is cached
  launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi
mkdir -p build
log="build/$preset.log"
if ! { cmake --preset "$preset" "${launcher[@]}" && cmake --build --preset "$preset" ${@:+--target "$@"}; } >"$log" 2>&1; then
  tail -n 60 "$log" >&2
  echo "build: failed; the whole log is in $log" >&2
  exit 1
fi
