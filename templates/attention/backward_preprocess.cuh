// Row statistics of the backward passes: D = rowsum(dO ∘ O) in fp32, and lse in base 2. A few lanes
// add up one row, 8 elements each, and combine in a fixed order.
#pragma once

#include "attention/config/backward_sm80.h"
#include "attention/params/backward.h"
#include "attention/tile.cuh"
#include "attention/types.cuh"
#include "ptx/warp.cuh"

namespace tilewright::attention {

template <BackwardSm80Config kConfig>
struct BackwardPreprocess {
  static __device__ __forceinline__ Chunk load(const void* tensor, const TensorStrides& strides,
                                               long long batch, long long head, long long row,
                                               int chunk) {
    const long long dim_bytes = kConfig.strided ? strides.dim * 2 : 2;
    return load_chunk<kConfig.strided>(
        static_cast<const char*>(tensor) +
            (batch * strides.batch + head * strides.head + row * strides.row) * 2 +
            chunk * kChunkElements * dim_bytes,
        dim_bytes);
  }

  static __device__ __forceinline__ float dot(const Chunk& a, const Chunk& b) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Pair left = unpack<kConfig.dtype>(a.words[i]);
      const Pair right = unpack<kConfig.dtype>(b.words[i]);
      sum += left.low * right.low;
      sum += left.high * right.high;
    }
    return sum;
  }

  static __device__ __forceinline__ void run(const BackwardParams& params) {
    constexpr int kLanes = kConfig.preprocess_lanes();
    const unsigned block = ptx::block_index();
    const unsigned blocks_of_head = static_cast<unsigned>(params.preprocess_blocks);
    const unsigned batch_head = block / blocks_of_head;
    const int batch = static_cast<int>(batch_head / static_cast<unsigned>(params.num_heads_q));
    const int head = static_cast<int>(batch_head) - batch * params.num_heads_q;
    const int thread = static_cast<int>(threadIdx.x);
    const int row =
        static_cast<int>(block - batch_head * blocks_of_head) * kConfig.preprocess_rows() +
        thread / kLanes;
    const int chunk = thread % kLanes;
    const bool row_exists = row < params.seqlen_q;
    float delta = 0.0f;
    if (row_exists && chunk < kConfig.head_dim_v / kChunkElements) {
      delta = dot(load(params.out, params.out_strides, batch, head, row, chunk),
                  load(params.dout, params.dout_strides, batch, head, row, chunk));
    }
    delta = sum_of_lanes<kLanes>(delta);
    if (chunk != 0 || row >= params.statistics_rows) return;
    const long long pair = batch_head;
    const float lse = row_exists ? params.lse[pair * params.seqlen_q + row] : 0.0f;
    params.statistics[pair * params.statistics_rows + row] = {lse * log2_e(), delta};
  }

 private:
  // The sum over groups of kLanes neighbours, in each of them.
  template <int kLanes>
  static __device__ __forceinline__ float sum_of_lanes(float value) {
    if constexpr (kLanes > 1) {
      value += ptx::shuffle_xor<kLanes / 2>(value);
      return sum_of_lanes<kLanes / 2>(value);
    } else {
      return value;
    }
  }
};

}  // namespace tilewright::attention
