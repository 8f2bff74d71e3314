// Packed batches (varlen) as plain sequences: every reference and bound takes one sequence at a
// time, batch 1, out of the packed tensors.
//   q, out, dout, dq [total_q, num_heads_q, dim]    k, v, dk, dv [total_k, num_heads_kv, dim]
//   lse [num_heads_q, total_q]
// where sequence b has rows cu_seqlens[b] <= row < cu_seqlens[b + 1].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/attention.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::reference {

struct PackedSequence {
  Sizes sizes;                       // batch 1
  int64_t first_q = 0, first_k = 0;  // rows of the packed tensors
  int64_t total_q = 0;
};

// One for each sequence, heads and dims as in `sizes`. kInvalidArgument where the prefix sums are
// none: not of one length, not from 0 up.
Result<std::vector<PackedSequence>> packed_sequences(const Sizes& sizes,
                                                     std::span<const int32_t> cu_seqlens_q,
                                                     std::span<const int32_t> cu_seqlens_k);

// The sequence's rows of packed q, k and v, and of document ids [total_q] and [total_k].
Inputs inputs_of(const PackedSequence& sequence, const Inputs& packed);

// The sequence's rows of a packed tensor like q (`dim` head_dim_qk) or out (head_dim_v), and like k
// or v.
std::span<const float> query_rows(const PackedSequence& sequence, std::span<const float> packed,
                                  int64_t dim);
std::span<const float> key_rows(const PackedSequence& sequence, std::span<const float> packed,
                                int64_t dim);

// The sequence's part of a packed lse, as [num_heads_q, seqlen_q].
std::vector<float> lse_of(const PackedSequence& sequence, std::span<const float> packed);

// The forward of all sequences: out and lse packed.
struct PackedForward {
  std::vector<double> out, lse;
};
Result<PackedForward> attention_forward_packed(const Problem& problem, const Sizes& sizes,
                                               const Inputs& packed,
                                               std::span<const int32_t> cu_seqlens_q,
                                               std::span<const int32_t> cu_seqlens_k);

}  // namespace tilewright::reference
