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
  // Of kernels with `varlen`: [batch + 1] each, cu_seqlens_k not of paged keys. q, out
  // [total_q, heads, dim], lse [num_heads_q, total_q], k, v unless paged [total_k, …]; the batch
  // strides of what is packed are 0.
  const int* cu_seqlens_q;
  const int* cu_seqlens_k;
  // Of kernels with `page_size`: k, v [num_pages, page_size, heads, dim], their batch stride that
  // of pages. Key j of a sequence lies in page block_table[sequence, j / page_size]; there are
  // seqused_k[sequence] of them.
  const int* seqused_k;
  const int* block_table;  // [batch, table_width]
  long long table_width;
  // Workspace of kernels with `split`, in fp32: what each part of the keys gives, as out
  // [num_splits, num_batch_heads, seqlen_q, head_dim_v] and lse [num_splits, num_batch_heads,
  // seqlen_q].
  float* partial_out;
  float* partial_lse;
  TensorStrides q_strides, k_strides, v_strides, out_strides;
  // Keys of query row i: row_left + i <= j <= row_right + i, clipped to [0, seqlen_k).
  // Where lengths vary the sequence's seqlen_k − seqlen_q is added to row_left and aligned_right.
  long long row_left;
  long long row_right;
  long long aligned_right;
  TileLists tile_lists;  // of kernels with tile_list
  int num_heads_q;
  int group_size;  // num_heads_q / num_heads_kv
  int seqlen_q;
  int seqlen_k;
  // Order of blocks: grid.x counts sections of `section_size` (batch, head) pairs, or (batch,
  // pack of heads) pairs; within one, the last query tile of every pair comes first (the longest
  // under a causal mask).
  int num_query_tiles;
  int section_size;
  int num_batch_heads;  // batch * num_heads_q
  int num_splits;
  int total_q, total_k;  // rows of packed tensors; total_k not of paged keys
  // Base-2 exponent of a weight = scale_log2 * t, where t is q·k, or tanh(tanh_scale * q·k) with
  // softcap. scale_log2 > 0.
  float scale_log2;
  float tanh_scale;
};

}  // namespace tilewright::attention
