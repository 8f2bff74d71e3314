#!/usr/bin/env bash
# Sets up, builds and runs the tests of a level (default smoke).
#   tools/test.sh [--level smoke|standard|full]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
level=smoke
while [ $# -gt 0 ]; do
  case "$1" in
    --level) level=${2:?--level needs smoke, standard or full}; shift 2 ;;
    *) echo "usage: tools/test.sh [--level smoke|standard|full]" >&2; exit 2 ;;
  esac
done
exclude=()
case "$level" in
  smoke) exclude=(-LE 'standard|full|slow') ;;
  standard) exclude=(-LE 'full|slow') ;;
  full) ;;
  *) echo "test: level '$level' is not smoke, standard or full" >&2; exit 2 ;;
esac

tools/setup.sh
echo "test: building"
tools/build.sh release
echo "test: running level $level"
# Tests of one program share its kernel cache, so that each kernel is compiled once.
export TILEWRIGHT_CACHE_DIR="$PWD/build/test-cache"
mkdir -p "$TILEWRIGHT_CACHE_DIR"
ctest --test-dir build/release --output-on-failure --no-tests=error -j "$(nproc)" "${exclude[@]}"
