// Online softmax over MMA accumulators, in base 2. A thread of the m16n8 accumulator layout holds
// elements of two rows per 16-row fragment (i = 0, 1 of the first, 2, 3 of the second), four lanes
// share a row. Weights are 2^(scale·t − max) with `max` the running maximum of scale·t, so the
// scale, log2 e and the subtraction are one FMA. The maximum is kept equal in the four lanes; each
// keeps the sum of its own columns until finish().
#pragma once

#include "attention/types.cuh"
#include "ptx/math.cuh"
#include "ptx/warp.cuh"

namespace tilewright::attention {

__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, ptx::shuffle_xor<1>(value));
  return fmaxf(value, ptx::shuffle_xor<2>(value));
}

__device__ __forceinline__ float quad_sum(float value) {
  value += ptx::shuffle_xor<1>(value);
  return value + ptx::shuffle_xor<2>(value);
}

// tanh within a few ulp, absolutely near ±1 and relatively near 0. tanh.approx (relative error
// 2^-11) would move a score near a cap of 50 by 0.024, and the weight by 50 times the rounding of
// fp16. 1 − 2 / (1 + e^2x) loses relative accuracy near 0, which a large cap multiplies; there the
// series to x^7 is used, whose next term is below 2^-24 for |x| < 0.15.
__device__ __forceinline__ float tanh_accurate(float x) {
  const float far = 1.0f - 2.0f * ptx::reciprocal_approx(1.0f + ptx::exp2_approx(x * two_log2_e()));
  const float square = x * x;
  const float series = -17.0f / 315.0f * square + 2.0f / 15.0f;
  const float near = x + x * square * (series * square - 1.0f / 3.0f);
  return square < 0.15f * 0.15f ? near : far;
}

template <int kRows>
struct OnlineSoftmax {
  float max[kRows];
  float sum[kRows];

  __device__ __forceinline__ OnlineSoftmax() {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      max[row] = -infinity();
      sum[row] = 0.0f;
    }
  }

  // Turns a row's scores into weights, in place; the result is the factor for what the row has
  // accumulated so far. score(j), j < kCount, is a reference. A row that has seen no key yet has
  // maximum −inf, which must not meet another −inf.
  template <int kCount, class Score>
  __device__ __forceinline__ float update(int row, float scale_log2, const Score& score) {
    float tile_max = score(0);
#pragma unroll
    for (int j = 1; j < kCount; ++j) tile_max = fmaxf(tile_max, score(j));
    const float new_max = fmaxf(max[row], quad_max(tile_max) * scale_log2);
    const float offset = new_max == -infinity() ? 0.0f : new_max;
    const float rescale = ptx::exp2_approx(max[row] - offset);
    max[row] = new_max;
    float tile_sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      score(j) = ptx::exp2_approx(score(j) * scale_log2 - offset);
      tile_sum += score(j);
    }
    sum[row] = sum[row] * rescale + tile_sum;
    return rescale;
  }

  // Adds up the four lanes' sums. Afterwards inverse_sum and log_sum are valid.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int row = 0; row < kRows; ++row) sum[row] = quad_sum(sum[row]);
  }
  // 0 for a row that saw no key; NaN stays NaN.
  __device__ __forceinline__ float inverse_sum(int row) const {
    return sum[row] == 0.0f ? 0.0f : ptx::reciprocal_approx(sum[row]);
  }
  // Natural logarithm of the sum of the exponentials of the scores; −inf for an empty row.
  __device__ __forceinline__ float log_sum(int row) const {
    return (max[row] + ptx::log2_approx(sum[row])) * ln_2();
  }
};

}  // namespace tilewright::attention
