// The kernel that combines what the parts of the keys have left (`splits=N`).
#pragma once

#include "attention/config/forward_sm80.h"
#include "attention/params/forward.h"
#include "attention/sequence.cuh"
#include "attention/types.cuh"
#include "ptx/math.cuh"
#include "ptx/warp.cuh"

namespace tilewright::attention {

// Adds up the parts of one row per warp: lse = ln Σ e^lse_s, out = Σ e^(lse_s − lse) out_s. A part
// whose row saw no key (lse −inf) adds nothing.
template <ForwardSm80Config kConfig>
__device__ __forceinline__ void forward_combine_cta(const ForwardParams& params) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int block = static_cast<int>(ptx::block_index());
  const int blocks_per_head = ceil_div(params.seqlen_q, kConfig.num_warps);
  const int batch_head = block / blocks_per_head;
  const int query = (block - batch_head * blocks_per_head) * kConfig.num_warps + warp;
  const long long num_rows = static_cast<long long>(params.num_batch_heads) * params.seqlen_q;
  const long long row = static_cast<long long>(batch_head) * params.seqlen_q + query;
  const int batch = batch_head / params.num_heads_q;
  const int head = batch_head - batch * params.num_heads_q;
  const Sequence sequence = sequence_of<kConfig.varlen, (kConfig.page_size > 0)>(params, batch);
  if (query >= sequence.seqlen_q) return;

  float max = -infinity();
  for (int part = 0; part < params.num_splits; ++part) {
    max = fmaxf(max, params.partial_lse[part * num_rows + row]);
  }
  const float offset = max == -infinity() ? 0.0f : max;
  const auto weight_of = [&](int part) {
    return ptx::exp2_approx((params.partial_lse[part * num_rows + row] - offset) * log2_e());
  };
  float sum = 0.0f;
  for (int part = 0; part < params.num_splits; ++part) sum += weight_of(part);
  const float inverse_sum = sum == 0.0f ? 0.0f : 1.0f / sum;

  const TensorStrides& strides = params.out_strides;
  char* const to =
      static_cast<char*>(params.out) +
      (batch * strides.batch + head * strides.head + (sequence.first_q + query) * strides.row) * 2;
  const long long dim_bytes = kConfig.strided ? strides.dim * 2 : 2;
  for (int column = lane; column < kConfig.head_dim_v; column += 32) {
    float out = 0.0f;
    for (int part = 0; part < params.num_splits; ++part) {
      const float weight = weight_of(part);
      if (weight == 0.0f) continue;
      out += weight * params.partial_out[(part * num_rows + row) * kConfig.head_dim_v + column];
    }
    *reinterpret_cast<unsigned short*>(to + column * dim_bytes) =
        static_cast<unsigned short>(pack<kConfig.dtype>(out * inverse_sum, 0.0f));
  }
  if (params.lse != nullptr && lane == 0) {
    lse_of<kConfig.varlen>(params, batch, head, sequence)[query] =
        max + ptx::log2_approx(sum) * ln_2();
  }
}

}  // namespace tilewright::attention
