// The rows and keys of one sequence of a forward launch, where all have the shape's lengths and
// where each has lengths of its own (packed sequences, keys in pages).
#pragma once

#include "attention/params/forward.h"

namespace tilewright::attention {

// Lengths, where the sequence starts in packed tensors, and the bounds of its mask.
struct Sequence {
  int seqlen_q;
  int seqlen_k;
  long long first_q;
  long long first_k;
  long long row_left;
  long long row_right;
};

template <bool kVarlen, bool kPaged>
__device__ __forceinline__ Sequence sequence_of(const ForwardParams& params, int batch) {
  if constexpr (!kVarlen && !kPaged) {
    return {params.seqlen_q, params.seqlen_k, 0, 0, params.row_left, params.row_right};
  }
  int first_q = 0, first_k = 0, seqlen_q = params.seqlen_q, seqlen_k = 0;
  if constexpr (kVarlen) {
    first_q = params.cu_seqlens_q[batch];
    seqlen_q = params.cu_seqlens_q[batch + 1] - first_q;
  }
  if constexpr (kPaged) {
    seqlen_k = params.seqused_k[batch];
  } else {
    first_k = params.cu_seqlens_k[batch];
    seqlen_k = params.cu_seqlens_k[batch + 1] - first_k;
  }
  const long long right = params.aligned_right + seqlen_k - seqlen_q;
  return {seqlen_q,
          seqlen_k,
          first_q,
          first_k,
          params.row_left + seqlen_k - seqlen_q,
          right < params.row_right ? right : params.row_right};
}

// The statistics of a head's rows: [batch, num_heads_q, seqlen_q], packed [num_heads_q, total_q].
template <bool kVarlen>
__device__ __forceinline__ float* lse_of(const ForwardParams& params, int batch, int head,
                                         const Sequence& sequence) {
  if constexpr (kVarlen) {
    return params.lse + static_cast<long long>(head) * params.total_q + sequence.first_q;
  }
  return params.lse + (static_cast<long long>(batch) * params.num_heads_q + head) * params.seqlen_q;
}

}  // namespace tilewright::attention
