// The parameters of linear attention, the same for the kernels of both families. Plain data, the
// same layout on the host and under NVRTC.
#pragma once

#include "attention/params/tensor_strides.h"

namespace tilewright::attention {

// A state is fp32 and contiguous: S [batch, num_heads_kv, head_dim_qk, head_dim_v] = Σ φ(k) vᵀ and
// z [batch, num_heads_kv, head_dim_qk] = Σ φ(k). A row of S belongs to one key feature, so that a
// gate scales rows, a decay all, and the delta rule subtracts φ(k) (φ(k)ᵀ S).
struct LinearParams {
  const void* q;  // [batch, seqlen_q, num_heads_q, head_dim_qk] through q_strides
  const void* k;  // [batch, seqlen_k, num_heads_kv, head_dim_qk]
  const void* v;  // [batch, seqlen_k, num_heads_kv, head_dim_v]
  void* out;      // [batch, seqlen_q, num_heads_q, head_dim_v]
  // Of the keys before these; null = zero.
  const float* state;
  const float* normalizer;
  // With these keys; null = not wanted. May be the arrays above.
  float* state_out;
  float* normalizer_out;
  // Workspace [batch, num_heads_kv, num_chunks + 1, state_elements]: slot c is the state before
  // chunk c. Unused by a step.
  float* chunk_states;
  TensorStrides q_strides, k_strides, v_strides, out_strides;
  long long offset;  // the last key of causal query row i is offset + i
  int num_heads_q;
  int num_heads_kv;
  int group_size;  // num_heads_q / num_heads_kv
  int seqlen_q;
  int seqlen_k;
  int num_query_tiles;
  int num_chunks;
  float scale;    // φ(scale · q)
  float epsilon;  // added to the normaliser
};

}  // namespace tilewright::attention
