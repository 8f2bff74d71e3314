#!/usr/bin/env bash
# Builds and runs other projects' kernels on the emulator, under every schedule. README.md says where
# the checkouts come from.
#   tests/third_party/run.sh CHECKOUTS [WORD]    only cases whose line holds WORD
# Needs nvcc of CUDA 13, g++ and the target tw_libcuda of the preset release.
set -euo pipefail
checkouts=$(realpath "$1")
word=${2:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build/third_party
driver=$root/build/release/emulator/libcuda
cuda=${CUDA_HOME:-/usr/local/cuda}
schedules=(eager lazy random:1 random:2 random:3)
mkdir -p "$build"
python3 "$here/prepare.py" "$checkouts" "$build"

cutlass="-I$checkouts/cutlass/include -I$checkouts/cutlass/tools/util/include"
fmha="$cutlass -I$checkouts/cutlass/examples/88_hopper_fmha -I$checkouts/cutlass/examples/common"
samples="-I$checkouts/cuda-samples/Samples/0_Introduction"

# build PROGRAM SOURCE ARCH OPTION…, if a case runs it and it is older than our sources.
build() {
  local program=$1 source=$2 arch=$3
  shift 3
  grep -E "^(right|defect|memory) +$program " "$here/cases.txt" | grep -q -e "$word" || return 0
  local newer
  newer=$(find "$here/$source" "$here"/*.h "$here/prepare.py" -newer "$build/$program.o" 2>/dev/null ||
    echo all)
  if [[ -n $newer ]]; then
    echo "building $program"
    if [[ $source == *.cpp ]]; then
      g++ -std=c++20 -O2 -w -ffunction-sections -fdata-sections -I"$root" -I"$cuda/include" "$@" \
        -c "$here/$source" -o "$build/$program.o"
    else
      "$cuda/bin/nvcc" -std=c++17 -O3 -Xcompiler -march=native -w -lineinfo --expt-relaxed-constexpr \
        -Xfatbin -compress=false -gencode "arch=compute_$arch,code=compute_$arch" -I"$root" \
        -I"$build" "$@" -c "$here/$source" -o "$build/$program.o"
    fi
  fi
  g++ -Wl,--gc-sections "$build/$program.o" "$build/runtime.o" -L"$driver" -lcuda -L"$cuda/lib64" \
    -Wl,-rpath,"$cuda/lib64" -lnvrtc -ldl -o "$build/$program"
}

g++ -std=c++20 -O2 -Wall -Wextra -I"$cuda/include" -c "$here/runtime.cpp" -o "$build/runtime.o"
# shellcheck disable=SC2086
{
  build cuda_samples_sm_80 cuda_samples.cu 80 $samples
  build cuda_samples_sm_90a cuda_samples.cu 90a $samples
  build fast_cu fast_cu.cu 90a -DNDEBUG --use_fast_math -I"$checkouts/fast.cu"
  build fast_cu_repaired fast_cu.cu 90a -DNDEBUG --use_fast_math -I"$build/repaired"
  for tutorial in wgmma_sm90 wgmma_sm90_repaired wgmma_tma_sm90; do
    build $tutorial cute_gemm.cu 90a $cutlass "-DTW_TUTORIAL=\"$tutorial.h\""
  done
  build cutlass_fmha_tma cutlass_fmha.cu 90a $fmha --use_fast_math -DTW_KERNEL=Tma64 \
    -DTW_MASK=ResidualFusion
  build cutlass_fmha_cooperative_causal cutlass_fmha.cu 90a $fmha --use_fast_math \
    -DTW_KERNEL=Cooperative64 -DTW_MASK=CausalFusion
  build cutlass_fmha_pingpong cutlass_fmha.cu 90a $fmha --use_fast_math -DTW_KERNEL=Pingpong128 \
    -DTW_MASK=ResidualFusion
  build cudnn_sdpa cudnn_sdpa.cpp 90a -I"$checkouts/cudnn-frontend/include"
}

export LD_LIBRARY_PATH=$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
bad=0
while read -r outcome program arguments; do
  [[ $outcome =~ ^(right|defect|memory)$ ]] || continue
  [[ "$outcome $program $arguments" == *"$word"* ]] || continue
  device=h100
  [[ $program == *sm_80 ]] && device=a100
  observers=full
  [[ $outcome == memory ]] && observers=memory
  for schedule in "${schedules[@]}"; do
    # shellcheck disable=SC2086
    text=$(TILEWRIGHT_EMULATED_DEVICES=$device TILEWRIGHT_EMULATOR_SCHEDULE=$schedule \
      TILEWRIGHT_EMULATOR_OBSERVERS=$observers timeout 900 "$build/$program" $arguments 2>&1) && code=0 || code=$?
    if [[ $outcome != defect && $code != 0 ]]; then
      bad=$((bad + 1))
      printf '%-8s %s %s\n%s\n' "$schedule" "$program" "$arguments" "$text"
    elif [[ $code == 0 ]]; then
      printf '%-8s %s: %s; %s\n' "$schedule" "$program" \
        "$(grep '^ok' <<<"$text")" "$(grep '^kernels' <<<"$text")"
    else
      printf '%-8s %s %s: %s\n' "$schedule" "$program" "$arguments" \
        "$(grep -v -e '^cu[A-Z]' <<<"$text" | head -n 1 | cut -c 1-160)"
    fi
  done
done <"$here/cases.txt"
echo "$bad cases that must be right are not"
[[ $bad == 0 ]]
