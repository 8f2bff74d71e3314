#include "reference/packed.h"

#include <algorithm>

#include "core/check.h"

namespace tilewright::reference {
namespace {

template <class T>
std::span<const T> part(std::span<const T> values, int64_t first, int64_t count) {
  return values.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
}

bool are_prefix_sums(std::span<const int32_t> sums) {
  return !sums.empty() && sums[0] == 0 && std::is_sorted(sums.begin(), sums.end());
}

}  // namespace

Result<std::vector<PackedSequence>> packed_sequences(const Sizes& sizes,
                                                     std::span<const int32_t> cu_seqlens_q,
                                                     std::span<const int32_t> cu_seqlens_k) {
  if (cu_seqlens_q.size() != cu_seqlens_k.size() || !are_prefix_sums(cu_seqlens_q) ||
      !are_prefix_sums(cu_seqlens_k)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "cu_seqlens_q ({} numbers) and cu_seqlens_k ({}) must be equally long and "
                      "rise from 0",
                      cu_seqlens_q.size(), cu_seqlens_k.size());
  }
  std::vector<PackedSequence> sequences;
  for (size_t b = 0; b + 1 < cu_seqlens_q.size(); ++b) {
    PackedSequence sequence{.sizes = sizes,
                            .first_q = cu_seqlens_q[b],
                            .first_k = cu_seqlens_k[b],
                            .total_q = cu_seqlens_q.back()};
    sequence.sizes.batch = 1;
    sequence.sizes.seqlen_q = cu_seqlens_q[b + 1] - cu_seqlens_q[b];
    sequence.sizes.seqlen_k = cu_seqlens_k[b + 1] - cu_seqlens_k[b];
    sequences.push_back(sequence);
  }
  return sequences;
}

std::span<const float> query_rows(const PackedSequence& sequence, std::span<const float> packed,
                                  int64_t dim) {
  const int64_t row = sequence.sizes.num_heads_q * dim;
  return part(packed, sequence.first_q * row, sequence.sizes.seqlen_q * row);
}

std::span<const float> key_rows(const PackedSequence& sequence, std::span<const float> packed,
                                int64_t dim) {
  const int64_t row = sequence.sizes.num_heads_kv * dim;
  return part(packed, sequence.first_k * row, sequence.sizes.seqlen_k * row);
}

Inputs inputs_of(const PackedSequence& sequence, const Inputs& packed) {
  const Sizes& sizes = sequence.sizes;
  Inputs inputs{.q = query_rows(sequence, packed.q, sizes.head_dim_qk),
                .k = key_rows(sequence, packed.k, sizes.head_dim_qk),
                .v = key_rows(sequence, packed.v, sizes.head_dim_v),
                .masks = packed.masks};
  if (!packed.masks.documents_q.empty()) {
    inputs.masks.documents_q = part(packed.masks.documents_q, sequence.first_q, sizes.seqlen_q);
  }
  if (!packed.masks.documents_k.empty()) {
    inputs.masks.documents_k = part(packed.masks.documents_k, sequence.first_k, sizes.seqlen_k);
  }
  return inputs;
}

std::vector<float> lse_of(const PackedSequence& sequence, std::span<const float> packed) {
  std::vector<float> lse;
  for (int64_t head = 0; head < sequence.sizes.num_heads_q; ++head) {
    const auto rows =
        part(packed, head * sequence.total_q + sequence.first_q, sequence.sizes.seqlen_q);
    lse.insert(lse.end(), rows.begin(), rows.end());
  }
  return lse;
}

Result<PackedForward> attention_forward_packed(const Problem& problem, const Sizes& sizes,
                                               const Inputs& packed,
                                               std::span<const int32_t> cu_seqlens_q,
                                               std::span<const int32_t> cu_seqlens_k) {
  TW_ASSIGN(const std::vector<PackedSequence> sequences,
            packed_sequences(sizes, cu_seqlens_q, cu_seqlens_k));
  PackedForward result;
  const int64_t total_q = cu_seqlens_q.back();
  result.lse.resize(static_cast<size_t>(sizes.num_heads_q * total_q));
  for (const PackedSequence& sequence : sequences) {
    TW_ASSIGN(const Forward forward,
              attention_forward(problem, sequence.sizes, inputs_of(sequence, packed)));
    result.out.insert(result.out.end(), forward.out.begin(), forward.out.end());
    for (int64_t head = 0; head < sizes.num_heads_q; ++head) {
      std::copy_n(forward.lse.begin() + head * sequence.sizes.seqlen_q, sequence.sizes.seqlen_q,
                  result.lse.begin() + head * total_q + sequence.first_q);
    }
  }
  return result;
}

}  // namespace tilewright::reference
