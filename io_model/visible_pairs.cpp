#include "io_model/visible_pairs.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "io_model/mask_rows.h"

namespace tilewright::io_model {
namespace {

// Rows are listed one by one; more would not fit in memory beside everything else.
constexpr int64_t kMaxMaskedRows = int64_t{1} << 24;

Status refuse_unlisted(const Mask& mask) {
  if (std::holds_alternative<DocumentsMask>(mask)) {
    return make_error(ErrorCode::kUnsupportedProblem,
                      "the mask 'documents' has no count: its document ids come at launch");
  }
  if (std::holds_alternative<BlocksMask>(mask)) {
    return make_error(ErrorCode::kUnsupportedProblem,
                      "the mask 'blocks' has no count: its block bits come at launch");
  }
  if (const auto* expression = std::get_if<ExpressionMask>(&mask)) {
    return make_error(ErrorCode::kUnsupportedProblem,
                      "the mask '{}' has no count: expressions are not enumerated here",
                      expression->expression);
  }
  return {};
}

}  // namespace

std::vector<Span> merged(std::vector<Span> spans, int64_t limit) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.begin < b.begin; });
  size_t kept = 0;
  for (const Span& whole : spans) {
    const Span span{std::max<int64_t>(whole.begin, 0), std::min(whole.end, limit)};
    if (span.size() <= 0) continue;
    if (kept > 0 && span.begin <= spans[kept - 1].end) {
      spans[kept - 1].end = std::max(spans[kept - 1].end, span.end);
    } else {
      spans[kept++] = span;
    }
  }
  spans.resize(kept);
  return spans;
}

VisiblePairs VisiblePairs::dense(int64_t seqlen_q, int64_t seqlen_k) {
  return VisiblePairs(seqlen_q, seqlen_k);
}

Result<VisiblePairs> VisiblePairs::from_problem(const Problem& problem) {
  if (!problem.seqlen_q || !problem.seqlen_k) {
    return make_error(ErrorCode::kInvalidArgument, "counting needs both sequence lengths (q, k)");
  }
  const int64_t seqlen_q = *problem.seqlen_q, seqlen_k = *problem.seqlen_k;
  if (problem.masks.empty()) return dense(seqlen_q, seqlen_k);
  if (seqlen_q > kMaxMaskedRows) {
    return make_error(ErrorCode::kOverflow,
                      "a mask over {} query rows cannot be listed; at most {} rows", seqlen_q,
                      kMaxMaskedRows);
  }
  for (const MaskUnion& masks : problem.masks) {
    for (const Mask& mask : masks.terms) TW_TRY(refuse_unlisted(mask));
  }
  TW_ASSIGN(MaskRows rows, MaskRows::make(problem, seqlen_q, seqlen_k));
  return from_rows(seqlen_q, seqlen_k, [&](int64_t query) { return rows.keys(query); });
}

VisiblePairs VisiblePairs::from_rows(int64_t seqlen_q, int64_t seqlen_k,
                                     const std::function<std::vector<Span>(int64_t)>& row) {
  VisiblePairs pairs(seqlen_q, seqlen_k);
  pairs.row_begin_.reserve(static_cast<size_t>(seqlen_q) + 1);
  pairs.row_begin_.push_back(0);
  for (int64_t query = 0; query < seqlen_q; ++query) {
    const std::vector<Span> spans = merged(row(query), seqlen_k);
    pairs.spans_.insert(pairs.spans_.end(), spans.begin(), spans.end());
    pairs.row_begin_.push_back(static_cast<int64_t>(pairs.spans_.size()));
  }
  return pairs;
}

bool VisiblePairs::visible(int64_t query, int64_t key) const {
  return any({query, query + 1}, {key, key + 1});
}

bool VisiblePairs::any(Span queries, Span keys) const {
  if (is_dense()) return queries.size() > 0 && keys.size() > 0;
  for (int64_t query = queries.begin; query < queries.end; ++query) {
    const auto first = spans_.begin() + row_begin_[static_cast<size_t>(query)];
    const auto last = spans_.begin() + row_begin_[static_cast<size_t>(query) + 1];
    // The first interval that ends beyond the keys' begin is the only one that need be looked at.
    const auto at =
        std::partition_point(first, last, [&](const Span& s) { return s.end <= keys.begin; });
    if (at != last && at->begin < keys.end) return true;
  }
  return false;
}

Count VisiblePairs::count() const {
  if (is_dense()) return Count(seqlen_q_) * seqlen_k_;
  Count pairs;
  for (const Span& span : spans_) pairs += span.size();
  return pairs;
}

Cover VisiblePairs::cover(int64_t tile_rows, int64_t tile_cols) const {
  const int64_t row_tiles = ceil_div(seqlen_q_, tile_rows);
  const int64_t col_tiles = ceil_div(seqlen_k_, tile_cols);
  if (is_dense()) {
    return {.tiles = Count(row_tiles) * col_tiles,
            .rows = Count(seqlen_q_) * col_tiles,
            .cols = Count(seqlen_k_) * row_tiles,
            .area = Count(seqlen_q_) * seqlen_k_};
  }
  Cover cover;
  std::vector<Span> blocks;  // live tile columns of one row of tiles
  for (int64_t begin = 0; begin < seqlen_q_; begin += tile_rows) {
    const int64_t end = std::min(begin + tile_rows, seqlen_q_);
    blocks.clear();
    for (int64_t at = row_begin_[static_cast<size_t>(begin)];
         at < row_begin_[static_cast<size_t>(end)]; ++at) {
      const Span& keys = spans_[static_cast<size_t>(at)];
      const Span block{keys.begin / tile_cols, ceil_div(keys.end, tile_cols)};
      // Most intervals only widen the last one seen.
      if (!blocks.empty() && block.begin >= blocks.back().begin &&
          block.begin <= blocks.back().end) {
        blocks.back().end = std::max(blocks.back().end, block.end);
      } else {
        blocks.push_back(block);
      }
    }
    blocks = merged(std::move(blocks), col_tiles);
    for (const Span& live : blocks) {
      const int64_t cols = std::min(live.end * tile_cols, seqlen_k_) - live.begin * tile_cols;
      cover.tiles += live.size();
      cover.rows += Count(live.size()) * (end - begin);
      cover.cols += cols;
      cover.area += Count(cols) * (end - begin);
    }
  }
  return cover;
}

int64_t VisiblePairs::live_queries() const {
  if (is_dense()) return seqlen_k_ > 0 ? seqlen_q_ : 0;
  int64_t live = 0;
  for (size_t row = 0; row + 1 < row_begin_.size(); ++row) {
    live += row_begin_[row] < row_begin_[row + 1] ? 1 : 0;
  }
  return live;
}

int64_t VisiblePairs::live_keys() const {
  if (is_dense()) return seqlen_q_ > 0 ? seqlen_k_ : 0;
  int64_t live = 0;
  for (const Span& span : merged(spans_, seqlen_k_)) live += span.size();
  return live;
}

}  // namespace tilewright::io_model
