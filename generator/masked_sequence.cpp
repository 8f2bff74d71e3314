#include "generator/masked_sequence.h"

#include <span>
#include <string_view>

#include "core/check.h"
#include "core/find_mask.h"
#include "generator/forward_problem.h"
#include "generator/launch_size.h"

namespace tilewright {
namespace {

// The rows of one sequence among those of all.
struct Rows {
  int64_t first = 0, count = 0;
};

Rows packed_rows(std::span<const int32_t> cu_seqlens, int64_t batch) {
  const auto at = static_cast<size_t>(batch);
  return {cu_seqlens[at], int64_t{cu_seqlens[at + 1]} - cu_seqlens[at]};
}

Rows query_rows(const Problem& problem, const Shape& shape, const MaskData& data, int64_t batch) {
  if (problem.varlen) return packed_rows(data.cu_seqlens_q, batch);
  return {batch * shape.seqlen_q, shape.seqlen_q};
}

Rows key_rows(const Problem& problem, const Shape& shape, const MaskData& data, int64_t batch) {
  if (!problem.page_size) return packed_rows(data.cu_seqlens_k, batch);
  return {batch * shape.seqlen_k, data.seqused_k[static_cast<size_t>(batch)]};
}

Result<std::span<const int32_t>> part(std::string_view name, std::span<const int32_t> ids,
                                      const Rows& rows) {
  if (std::ssize(ids) < rows.first + rows.count) {
    return make_error(ErrorCode::kInvalidArgument,
                      "documents: {} ids in {}, a sequence has the rows {} to {}", ids.size(), name,
                      rows.first, rows.first + rows.count);
  }
  return ids.subspan(static_cast<size_t>(rows.first), static_cast<size_t>(rows.count));
}

// The flags of a sequence that is shorter than those were made for: of every head the first rows
// and columns.
Status cut_blocks(const BlocksMask& mask, const Shape& shape, MaskedSequence& sequence) {
  MaskData& data = sequence.data;
  const auto count = [&](int64_t length) { return ceil_div(length, mask.size); };
  const int64_t rows = count(shape.seqlen_q), columns = count(shape.seqlen_k);
  const bool one_or_all = (data.blocks_batch == 1 || data.blocks_batch == shape.batch) &&
                          (data.blocks_heads == 1 || data.blocks_heads == shape.num_heads_q);
  if (!one_or_all ||
      std::ssize(data.blocks) != data.blocks_batch * data.blocks_heads * rows * columns) {
    return make_error(ErrorCode::kInvalidArgument,
                      "blocks={}: {} flags given, {} batches of {} heads of {} x {} blocks wanted",
                      mask.size, data.blocks.size(), data.blocks_batch, data.blocks_heads, rows,
                      columns);
  }
  const int64_t batch = data.blocks_batch == 1 ? 0 : sequence.batch;
  const int64_t own_columns = count(sequence.seqlen_k);
  for (int64_t head = 0; head < data.blocks_heads; ++head) {
    for (int64_t row = 0; row < count(sequence.seqlen_q); ++row) {
      const int64_t first = ((batch * data.blocks_heads + head) * rows + row) * columns;
      const auto flags =
          data.blocks.subspan(static_cast<size_t>(first), static_cast<size_t>(own_columns));
      sequence.own_blocks.insert(sequence.own_blocks.end(), flags.begin(), flags.end());
    }
  }
  data.blocks = sequence.own_blocks;
  data.blocks_batch = 1;
  return {};
}

}  // namespace

Result<MaskedSequence> masked_sequence(const Problem& problem, const Shape& shape,
                                       const MaskData& data, int64_t batch) {
  MaskedSequence sequence;
  sequence.seqlen_q = shape.seqlen_q;
  sequence.seqlen_k = shape.seqlen_k;
  sequence.batch = batch;
  sequence.data = data;
  if (!lengths_vary(problem)) return sequence;
  const Rows queries = query_rows(problem, shape, data, batch);
  const Rows keys = key_rows(problem, shape, data, batch);
  sequence.seqlen_q = queries.count;
  sequence.seqlen_k = keys.count;
  if (find_mask<DocumentsMask>(problem) != nullptr) {
    TW_ASSIGN(sequence.data.documents_q, part("documents_q", data.documents_q, queries));
    TW_ASSIGN(sequence.data.documents_k, part("documents_k", data.documents_k, keys));
  }
  if (const auto* blocks = find_mask<BlocksMask>(problem)) {
    TW_TRY(cut_blocks(*blocks, shape, sequence));
  }
  sequence.batch = 0;
  return sequence;
}

}  // namespace tilewright
