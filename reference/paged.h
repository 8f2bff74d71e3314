// A paged KV cache as plain tensors: the keys and values of one sequence, gathered row by row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/attention.h"
#include "tilewright/result.h"

namespace tilewright::reference {

struct PagedKeys {
  // [num_pages, page_size, num_heads_kv, head_dim_qk] and […, head_dim_v].
  std::span<const float> k_pages, v_pages;
  int64_t page_size = 0;
  // [batch, table_width]: key j of sequence b is row j % page_size of page
  // block_table[b, j / page_size]. Entries beyond the sequence's keys are not looked at.
  std::span<const int32_t> block_table;
  int64_t table_width = 0;
  std::span<const int32_t> seqused_k;  // [batch]: keys of each sequence
};

struct SequenceKeys {
  Sizes sizes;              // of the call, but batch 1 and seqlen_k of this sequence
  std::vector<float> k, v;  // [1, seqlen_k, num_heads_kv, dim]
};

// Sequence `batch` of the cache; heads, dims and seqlen_q as in `sizes`. kInvalidArgument names a
// page that does not exist or a length that the table does not hold.
Result<SequenceKeys> gather_keys(const Sizes& sizes, const PagedKeys& cache, int64_t batch);

}  // namespace tilewright::reference
