// The parameters of forward attention, passed by value as the kernel's only parameter. Plain data,
// the same layout on the host and under NVRTC (fixed-width by construction on LP64). The family's
// host side fills it in: plan() everything but pointers and strides, bind() those.
#pragma once

#include "attention/params/tensor_strides.h"
#include "attention/params/tile_lists.h"

namespace tilewright::attention {

struct ForwardParams {
  const void* q;  // [batch, seqlen_q, num_heads_q, head_dim_qk] through q_strides
  const void* k;  // [batch, seqlen_k, num_heads_kv, head_dim_qk]
  const void* v;  // [batch, seqlen_k, num_heads_kv, head_dim_v]
  void* out;      // [batch, seqlen_q, num_heads_q, head_dim_v]
  float* lse;     // [batch, num_heads_q, seqlen_q] contiguous; null = not wanted
  TensorStrides q_strides, k_strides, v_strides, out_strides;
  // Keys of query row i: row_left + i <= j <= row_right + i, clipped to [0, seqlen_k).
  long long row_left;
  long long row_right;
  TileLists tile_lists;  // of kernels with tile_list
  int num_heads_q;
  int group_size;  // num_heads_q / num_heads_kv
  int seqlen_q;
  int seqlen_k;
  // Order of blocks: grid.x counts sections of `section_size` (batch, head) pairs; within one, the
  // last query tile of every pair comes first (the longest under a causal mask).
  int num_query_tiles;
  int section_size;
  int num_batch_heads;  // batch * num_heads_q
  // Base-2 exponent of a weight = scale_log2 * t, where t is q·k, or tanh(tanh_scale * q·k) with
  // softcap. scale_log2 > 0.
  float scale_log2;
  float tanh_scale;
};

}  // namespace tilewright::attention
