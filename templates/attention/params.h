// Kernel parameters: one struct per family, passed by value as the kernel's only parameter. Plain
// data, the same layout on the host and under NVRTC (fixed-width by construction on LP64).
#pragma once

namespace tilewright::attention {

// Strides in elements of one of Q, K, V, O; the innermost stride is 1.
struct TensorStrides {
  long long batch;
  long long head;
  long long row;
};

struct ForwardParams {
  const void* q;  // [batch, seqlen_q, num_heads_q, head_dim_qk] through q_strides
  const void* k;  // [batch, seqlen_k, num_heads_kv, head_dim_qk]
  const void* v;  // [batch, seqlen_k, num_heads_kv, head_dim_v]
  void* out;      // [batch, seqlen_q, num_heads_q, head_dim_v]
  float* lse;     // [batch, num_heads_q, seqlen_q] contiguous; null = not wanted
  TensorStrides q_strides, k_strides, v_strides, out_strides;
  long long batch;
  long long num_heads_q;
  long long group_size;  // num_heads_q / num_heads_kv
  long long seqlen_q;
  long long seqlen_k;
  float softmax_scale;
  float softcap;  // 0 = none
  // Keys of query row i: row_left + i <= j <= row_right + i, clipped to [0, seqlen_k).
  long long row_left;
  long long row_right;
};

}  // namespace tilewright::attention
