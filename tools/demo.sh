#!/usr/bin/env bash
# Sets up, builds, and does the main job on real input: attention of a paragraph in a real model
# (tests/data/README.md), compiled at run time and executed on an emulated GPU; then once more in a new
# process, which finds the kernel in the cache.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/setup.sh
echo "demo: building"
tools/build.sh release tilewright

data=tests/data/minilm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run=(build/release/cli/tilewright run --q "$data/layer1_q.npy" --k "$data/layer1_k.npy"
  --v "$data/layer1_v.npy" --out "$work/out.npy" --check --cache-dir "$work/cache")
echo
echo "demo: first run, the kernel is compiled"
"${run[@]}"
echo
echo "demo: second run in a new process, the kernel comes from the cache"
"${run[@]}"
echo
echo "demo: the same with NumPy in fp64"
bound=$("${run[@]}" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["check"]["out"]["bound"])')
/usr/bin/python3 tests/data/compare_with_numpy.py "$data/layer1_q.npy" "$data/layer1_k.npy" \
  "$data/layer1_v.npy" "$work/out.npy" "$bound"
