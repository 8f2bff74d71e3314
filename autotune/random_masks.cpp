#include "autotune/random_masks.h"

#include "autotune/random_values.h"
#include "core/ceil_div.h"
#include "core/find_mask.h"

namespace tilewright {

SequenceRows sequence_rows(const Problem& problem, const reference::Sizes& sizes,
                           const TrialTensors& inputs, int64_t batch) {
  const auto at = static_cast<size_t>(batch);
  SequenceRows rows = {batch * sizes.seqlen_q, sizes.seqlen_q, batch * sizes.seqlen_k,
                       sizes.seqlen_k};
  if (problem.varlen) {
    rows.first_q = inputs.cu_seqlens_q[at];
    rows.seqlen_q = inputs.cu_seqlens_q[at + 1] - rows.first_q;
  }
  if (problem.page_size) {
    rows.seqlen_k = inputs.seqused_k[at];
  } else if (problem.varlen) {
    rows.first_k = inputs.cu_seqlens_k[at];
    rows.seqlen_k = inputs.cu_seqlens_k[at + 1] - rows.first_k;
  }
  return rows;
}

void add_random_mask_data(const Problem& problem, const reference::Sizes& sizes, uint64_t seed,
                          TrialTensors& inputs) {
  constexpr uint64_t kMeanDocument = 40;
  if (const auto* blocks = find_mask<BlocksMask>(problem)) {
    // Some for all, some for each batch, head, or both.
    inputs.blocks_batch = (mix(seed) & 1) != 0 ? sizes.batch : 1;
    inputs.blocks_heads = (mix(seed) & 2) != 0 ? sizes.num_heads_q : 1;
    inputs.blocks.resize(static_cast<size_t>(inputs.blocks_batch * inputs.blocks_heads *
                                             ceil_div(sizes.seqlen_q, blocks->size) *
                                             ceil_div(sizes.seqlen_k, blocks->size)));
    for (size_t i = 0; i < inputs.blocks.size(); ++i) inputs.blocks[i] = mix(seed ^ mix(i)) & 1;
  }
  if (find_mask<DocumentsMask>(problem) == nullptr) return;
  for (int64_t batch = 0; batch < sizes.batch; ++batch) {
    const SequenceRows rows = sequence_rows(problem, sizes, inputs, batch);
    int32_t id = 0;
    // Ids of keys that a sequence does not have, where it has fewer than there is room for.
    inputs.documents_k.resize(static_cast<size_t>(rows.first_k), INT32_MAX);
    for (int64_t key = 0; key < rows.seqlen_k; ++key) {
      const auto index = static_cast<uint64_t>(rows.first_k + key);
      id += mix(seed ^ mix(index)) % kMeanDocument == 0 ? 1 : 0;
      inputs.documents_k.push_back(id);
    }
  }
  inputs.documents_q = query_documents(problem, sizes, inputs);
}

std::vector<int32_t> query_documents(const Problem& problem, const reference::Sizes& sizes,
                                     const TrialTensors& inputs) {
  std::vector<int32_t> ids;
  for (int64_t batch = 0; batch < sizes.batch; ++batch) {
    const SequenceRows rows = sequence_rows(problem, sizes, inputs, batch);
    for (int64_t query = 0; query < rows.seqlen_q; ++query) {
      const int64_t key = query + rows.seqlen_k - rows.seqlen_q;
      const auto index = static_cast<size_t>(rows.first_k + key);
      ids.push_back(key < 0 ? INT32_MIN : inputs.documents_k[index]);
    }
  }
  return ids;
}

}  // namespace tilewright
