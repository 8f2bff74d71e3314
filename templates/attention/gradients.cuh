// From scores to weights and their gradients, in the accumulators of one warp. With t the score
// (q·k, or tanh(q·k·scale/cap) with softcap), L the row's lse in base 2, D its rowsum(dO ∘ O):
//   P = 2^(scale·t − L),  dS = P · (dP − D) · slope,  slope = 1, or 1 − t² with softcap
// A key that is not visible has exponent −inf, hence P = dS = 0 exactly; its other factor is finite
// whatever L is.
#pragma once

#include "attention/params/backward.h"
#include "attention/softmax.cuh"
#include "attention/types.cuh"
#include "ptx/math.cuh"
#include "ptx/warp.cuh"

namespace tilewright::attention {

// Statistics of the four elements of a fragment.
struct FragmentStatistics {
  RowStatistics of[4];
};

// scores: q·k in, exponents out; products: dP in, (dP − D)·slope out. statistics(m, n) gives those
// of fragment n of rows 16m ….
template <bool kSoftcap, int kRows, int kColumns, class StatisticsOf>
__device__ __forceinline__ void compute_exponents(float (&scores)[kRows][kColumns][4],
                                                  float (&products)[kRows][kColumns][4],
                                                  float scale_log2, float tanh_scale,
                                                  const StatisticsOf& statistics) {
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const FragmentStatistics fragment = statistics(m, n);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& score = scores[m][n][i];
        float& product = products[m][n][i];
        product -= fragment.of[i].delta;
        if constexpr (kSoftcap) {
          score = tanh_accurate(score * tanh_scale);
          product *= 1.0f - score * score;
        }
        score = score * scale_log2 - fragment.of[i].lse_log2;
      }
    }
  }
}

// Sets what the mask hides to −inf. Reads the lane anew, so that rows' intervals are computed here
// and not kept through the loop.
template <int kRows, int kColumns, class Mask>
__device__ __forceinline__ void apply_mask(float (&scores)[kRows][kColumns][4], const Mask& mask,
                                           int first_row, int first_column) {
  const int lane = ptx::lane_index();
#pragma unroll
  for (int row = 0; row < 2 * kRows; ++row) {
    const typename Mask::Row visible = mask.row(first_row + lane / 4 + 8 * row);
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = first_column + 8 * n + lane % 4 * 2 + i;
        if (!visible.visible(column)) scores[row / 2][n][row % 2 * 2 + i] = -infinity();
      }
    }
  }
}

// Exponents become P, the other factors dS.
template <int kRows, int kColumns>
__device__ __forceinline__ void compute_gradients(float (&scores)[kRows][kColumns][4],
                                                  float (&products)[kRows][kColumns][4]) {
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[m][n][i] = ptx::exp2_approx(scores[m][n][i]);
        products[m][n][i] *= scores[m][n][i];
      }
    }
  }
}

}  // namespace tilewright::attention
