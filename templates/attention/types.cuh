// Basic types and helpers of device code, which includes nothing of the toolkit; and the choice of
// instruction by element type. Constants are enumerators or constexpr functions: under NVRTC's
// -default-device a constexpr variable becomes a .global.
#pragma once

#include "attention/config/dtype.h"
#include "ptx/convert.cuh"
#include "ptx/mma.cuh"

namespace tilewright::attention {

// Eight 16-bit elements: what one thread moves at a time.
struct alignas(16) Chunk {
  unsigned words[4];
};
enum : int { kChunkElements = 8, kChunkBytes = 16 };

// The dynamic shared memory of a block is an array of these; tiles in it are 128-byte aligned.
struct alignas(128) SharedBytes {
  char bytes[128];
};

template <bool kCondition, class A, class B>
struct Select {
  using Type = A;
};
template <class A, class B>
struct Select<false, A, B> {
  using Type = B;
};

constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000); }
constexpr float ln_2() { return 0.693147180559945309f; }
constexpr float log2_e() { return 1.44269504088896341f; }
constexpr float two_log2_e() { return 2.88539008177792681f; }

__device__ __forceinline__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

constexpr int greatest_common_divisor(int a, int b) {
  return b == 0 ? a : greatest_common_divisor(b, a % b);
}

constexpr int log2_of_power(int x) { return x <= 1 ? 0 : 1 + log2_of_power(x / 2); }

__device__ __forceinline__ int clamp_to_int(long long value, int low, int high) {
  return value < low ? low : value > high ? high : static_cast<int>(value);
}

template <Dtype kDtype>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
  static_assert(kDtype == Dtype::kFloat16 || kDtype == Dtype::kBFloat16,
                "mma_m16n8k16 takes fp16 and bf16");
  if constexpr (kDtype == Dtype::kFloat16) {
    ptx::mma_m16n8k16_f16(d, a, b0, b1);
  } else {
    ptx::mma_m16n8k16_bf16(d, a, b0, b1);
  }
}

template <Dtype kDtype>
__device__ __forceinline__ unsigned pack(float low, float high) {
  if constexpr (kDtype == Dtype::kFloat16) {
    return ptx::pack_f16x2(low, high);
  } else {
    return ptx::pack_bf16x2(low, high);
  }
}

struct Pair {
  float low, high;
};

template <Dtype kDtype>
__device__ __forceinline__ Pair unpack(unsigned packed) {
  if constexpr (kDtype == Dtype::kFloat16) {
    return {ptx::low_f16(packed), ptx::high_f16(packed)};
  } else {
    return {ptx::low_bf16(packed), ptx::high_bf16(packed)};
  }
}

}  // namespace tilewright::attention
