// The parameters of the gradients of attention, passed by value as the only parameter of each of
// their kernels. Plain data, the same layout on the host and under NVRTC (fixed-width by
// construction on LP64). The family's host side fills it in: plan() everything but pointers and
// strides, bind() those.
#pragma once

#include "attention/params/block_order.h"
#include "attention/params/tensor_strides.h"

namespace tilewright::attention {

// What the passes need of one query row, made once by the preprocess kernel.
struct RowStatistics {
  float lse_log2;  // lse · log2 e
  float delta;     // rowsum(dO ∘ O)
};

struct BackwardParams {
  const void* q;     // [batch, seqlen_q, num_heads_q, head_dim_qk] through q_strides
  const void* k;     // [batch, seqlen_k, num_heads_kv, head_dim_qk]
  const void* v;     // [batch, seqlen_k, num_heads_kv, head_dim_v]
  const void* out;   // [batch, seqlen_q, num_heads_q, head_dim_v]
  const void* dout;  // as out
  const float* lse;  // [batch, num_heads_q, seqlen_q] contiguous
  void* dq;          // as q
  void* dk;          // as k
  void* dv;          // as v
  // [batch, num_heads_q, statistics_rows]; rows from seqlen_q on are 0.
  RowStatistics* statistics;
  TensorStrides q_strides, k_strides, v_strides, out_strides, dout_strides;
  TensorStrides dq_strides, dk_strides, dv_strides;
  // Keys of query row i: row_left + i <= j <= row_right + i, clipped to [0, seqlen_k).
  long long row_left;
  long long row_right;
  int num_heads_q;
  int num_heads_kv;
  int group_size;  // num_heads_q / num_heads_kv
  int seqlen_q;
  int seqlen_k;
  int statistics_rows;    // seqlen_q up to a multiple of a step's rows
  int preprocess_blocks;  // of one (batch, head)
  BlockOrder key_blocks;  // key tiles of (batch, key head) pairs
  BlockOrder query_blocks;
  // Base-2 exponent of a weight = scale_log2 * t - lse_log2, where t is q·k, or
  // tanh(tanh_scale * q·k) with softcap. scale_log2 > 0.
  float scale_log2;
  float tanh_scale;
  float scale;  // softmax_scale: the factor of dQ and dK
};

}  // namespace tilewright::attention
