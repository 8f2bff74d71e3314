// The parameters of standard attention, the same for its three kernels. Plain data, the same layout
// on the host and under NVRTC.
#pragma once

#include "attention/params/tensor_strides.h"

namespace tilewright::attention {

struct StandardParams {
  const void* q;  // [batch, seqlen_q, num_heads_q, head_dim_qk] through q_strides
  const void* k;  // [batch, seqlen_k, num_heads_kv, head_dim_qk]
  const void* v;  // [batch, seqlen_k, num_heads_kv, head_dim_v]
  void* out;      // [batch, seqlen_q, num_heads_q, head_dim_v]
  float* lse;     // [batch, num_heads_q, seqlen_q] contiguous; null = not wanted
  // Workspace [batch, num_heads_q, seqlen_q, pitch]: t, with -inf where masked, and the weights
  // before normalisation in the type of q; [batch, num_heads_q, seqlen_q]: what normalises a row.
  float* scores;
  void* weights;
  float* inverse_sums;
  TensorStrides q_strides, k_strides, v_strides, out_strides;
  // Keys of query row i: row_left + i <= j <= row_right + i, clipped to [0, seqlen_k).
  long long row_left;
  long long row_right;
  long long pitch;     // seqlen_k rounded up to whole tiles
  long long num_rows;  // batch * num_heads_q * seqlen_q
  int num_heads_q;
  int group_size;  // num_heads_q / num_heads_kv
  int seqlen_q;
  int seqlen_k;
  int num_query_tiles;
  int num_key_tiles;
  // The base-2 exponent of a weight is scale_log2 * t, where t is q·k, or tanh(tanh_scale * q·k)
  // with softcap. scale_log2 > 0.
  float scale_log2;
  float tanh_scale;
};

}  // namespace tilewright::attention
