#!/bin/sh
# installed_example.sh BUILD SOURCE WORK COMPILER: installs the library from BUILD into WORK,
# compiles SOURCE/examples against it with find_package, and runs the first kernel there.
set -eu
build=$1 source=$2 work=$3 compiler=$4
rm -rf "$work"
cmake --install "$build" --component library --prefix "$work/prefix" >"$work.log" 2>&1 ||
  { cat "$work.log"; exit 1; }
cmake -S "$source/examples" -B "$work/build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror"
cmake --build "$work/build"
# An installed library looks for NVRTC in the loader's folders and the toolkit's; where there is no
# toolkit, name the one that tools/setup.sh fetched.
fetched=$(ls "$source"/build/cuda/lib/libnvrtc.so.1[23] 2>/dev/null | head -n 1)
if [ -n "$fetched" ]; then export TILEWRIGHT_NVRTC="$fetched"; fi
TILEWRIGHT_DEVICE=emulated:a100 TILEWRIGHT_CACHE_DIR="$work/cache" "$work/build/first_kernel"
