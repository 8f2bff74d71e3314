// Matrix products of one warp on mma.m16n8k16, with B in shared memory and the accumulators in
// registers: acc[m][n] holds rows 16m … of columns 8n …. load_a(m, step, a) fetches A's fragment of
// those rows and 16 elements of the inner dimension.
#pragma once

#include "attention/tile.cuh"
#include "attention/types.cuh"
#include "ptx/ldmatrix.cuh"

namespace tilewright::attention {

// Addresses within a tile of a lane's rows. An A operand, or a B operand stored by rows of the
// inner dimension, takes rows l % 16 and chunk l / 16; a B operand stored by its columns rows
// l % 8 + 8·(l / 16) and chunk (l / 8) % 2, so that each B fragment is a pair of adjacent
// registers, as HMMA wants it.
template <class Tile>
__device__ __forceinline__ FragmentAddress<Tile> by_depth_address(int lane, int first_row,
                                                                  int first_chunk) {
  return {first_row + lane % 16, first_chunk + lane / 16};
}
template <class Tile>
__device__ __forceinline__ FragmentAddress<Tile> by_column_address(int lane, int first_row) {
  return {first_row + lane % 8 + lane / 16 * 8, lane / 8 % 2};
}

// acc += A·Bᵀ: B's tile holds one row per column of the product.
template <Dtype kDtype, int kSteps, int kRows, int kColumns, class BTile, class LoadA>
__device__ __forceinline__ void multiply_transposed(float (&acc)[kRows][kColumns][4],
                                                    const LoadA& load_a,
                                                    const FragmentAddress<BTile>& b_from,
                                                    unsigned b_tile) {
  static_assert(kColumns % 2 == 0, "one ldmatrix brings B for 16 columns");
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    unsigned a[kRows][4];
#pragma unroll
    for (int m = 0; m < kRows; ++m) load_a(m, step, a[m]);
#pragma unroll
    for (int n = 0; n < kColumns; n += 2) {
      unsigned b[4];
      ptx::ldmatrix_x4(b, b_from.at(b_tile, 8 * n, step));
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        mma_m16n8k16<kDtype>(acc[m][n], a[m], b[0], b[1]);
        mma_m16n8k16<kDtype>(acc[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// acc += A·B: B's tile holds one row per element of the inner dimension. Of B's 16-column pairs the
// product takes every kPairStride-th.
template <Dtype kDtype, int kSteps, int kPairStride, int kRows, int kColumns, class BTile,
          class LoadA>
__device__ __forceinline__ void multiply(float (&acc)[kRows][kColumns][4], const LoadA& load_a,
                                         const FragmentAddress<BTile>& b_from, unsigned b_tile) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    unsigned a[kRows][4];
#pragma unroll
    for (int m = 0; m < kRows; ++m) load_a(m, step, a[m]);
#pragma unroll
    for (int n = 0; n + 1 < kColumns; n += 2) {
      unsigned b[4];
      ptx::ldmatrix_x4_trans(b, b_from.at(b_tile, 16 * step, kPairStride * (n / 2)));
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        mma_m16n8k16<kDtype>(acc[m][n], a[m], b[0], b[1]);
        mma_m16n8k16<kDtype>(acc[m][n + 1], a[m], b[2], b[3]);
      }
    }
    if constexpr (kColumns % 2 == 1) {
      unsigned b[2];
      ptx::ldmatrix_x2_trans(b, b_from.at(b_tile, 16 * step, kPairStride * (kColumns / 2)));
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        mma_m16n8k16<kDtype>(acc[m][kColumns - 1], a[m], b[0], b[1]);
      }
    }
  }
}

// Two accumulator fragments side by side are one A fragment, once packed.
template <Dtype kDtype, int kColumns>
__device__ __forceinline__ void pack_operand(const float (&acc)[kColumns][4], int step,
                                             unsigned (&a)[4]) {
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const float(&fragment)[4] = acc[2 * step + r / 2];
    a[r] = pack<kDtype>(fragment[r % 2 * 2], fragment[r % 2 * 2 + 1]);
  }
}

}  // namespace tilewright::attention
