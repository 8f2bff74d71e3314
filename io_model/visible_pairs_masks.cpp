// The key intervals of each mask of a problem, straight from the definitions in docs/semantics.md.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "core/bigbird.h"
#include "io_model/visible_pairs.h"

namespace tilewright::io_model {
namespace {

// Rows are listed one by one; more would not fit in memory beside everything else.
constexpr int64_t kMaxMaskedRows = int64_t{1} << 24;

constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 4;

// What a mask needs to know to list the keys of one query.
struct Row {
  int64_t query = 0;
  int64_t position = 0;  // query + seqlen_k - seqlen_q
  int64_t seqlen_q = 0, seqlen_k = 0;
};

using Spans = std::vector<Span>;

Spans keys_of(const CausalMask& mask, const Row& row) {
  const bool top_left = mask.alignment == MaskAlignment::kTopLeft;
  return {{0, (top_left ? row.query : row.position) + 1}};
}

// A window's distance, which counts steps of the dilation.
int64_t reach(const std::optional<int64_t>& distance, int64_t dilation) {
  return distance && *distance < kFar / dilation ? *distance * dilation : kFar;
}

Spans keys_of(const WindowMask& mask, const Row& row) {
  const int64_t left = reach(mask.left, mask.dilation), right = reach(mask.right, mask.dilation);
  const Span keys{std::max<int64_t>(row.position - left, 0),
                  std::min(row.position + right + 1, row.seqlen_k)};
  if (mask.dilation == 1) return {keys};
  Spans spans;
  const int64_t phase =
      ((row.position - keys.begin) % mask.dilation + mask.dilation) % mask.dilation;
  for (int64_t key = keys.begin + phase; key < keys.end; key += mask.dilation) {
    spans.push_back({key, key + 1});
  }
  return spans;
}

Spans keys_of(const PrefixMask& mask, const Row&) { return {{0, mask.length}}; }

bool is_global(const GlobalMask& mask, int64_t position) {
  return position < mask.count ||
         std::count(mask.indices.begin(), mask.indices.end(), position) > 0;
}

Spans keys_of(const GlobalMask& mask, const Row& row) {
  if (row.position >= 0 && is_global(mask, row.position)) return {{0, row.seqlen_k}};
  Spans spans{{0, mask.count}};
  for (const int64_t index : mask.indices) spans.push_back({index, index + 1});
  return spans;
}

Spans keys_of(const LongformerMask& mask, const Row& row) {
  const int64_t half = mask.window / 2;
  Spans spans = keys_of(GlobalMask{.count = 0, .indices = mask.global}, row);
  spans.push_back({row.position - half, row.position + half + 1});
  return spans;
}

Spans keys_of(const ChunkMask& mask, const Row& row) {
  if (row.position < 0) return {};
  return {{row.position / mask.size * mask.size, row.position + 1}};
}

// How many pairs BigBird leaves does not depend on which random blocks are drawn, only that they
// are distinct and new; how many tiles of another size they touch does, so the first head stands
// for all.
Spans keys_of(const BigBirdMask& mask, const Row& row) {
  if (row.position < 0) return {};
  Spans spans;
  for (const int64_t block :
       bigbird_key_blocks(mask, ceil_div(row.seqlen_k, mask.block), 0, row.position / mask.block)) {
    spans.push_back({block * mask.block, (block + 1) * mask.block});
  }
  return spans;
}

// from_problem refuses these before any row is listed.
Spans keys_of(const DocumentsMask&, const Row&) { return {}; }
Spans keys_of(const BlocksMask&, const Row&) { return {}; }
Spans keys_of(const ExpressionMask&, const Row&) { return {}; }

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

Spans intersect(const Spans& a, const Spans& b) {
  Spans both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Span common{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (common.size() > 0) both.push_back(common);
    (a[i].end < b[j].end ? i : j) += 1;
  }
  return both;
}

// A key is visible if any term shows it.
Spans keys_of_union(const MaskUnion& masks, const Row& row) {
  Spans spans;
  for (const Mask& mask : masks.terms) {
    const Spans more = std::visit([&](const auto& term) { return keys_of(term, row); }, mask);
    spans.insert(spans.end(), more.begin(), more.end());
  }
  return merged(std::move(spans), row.seqlen_k);
}

}  // namespace

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
  return from_rows(seqlen_q, seqlen_k, [&](int64_t query) {
    const Row row{query, query + seqlen_k - seqlen_q, seqlen_q, seqlen_k};
    Spans keys{{0, seqlen_k}};
    for (const MaskUnion& masks : problem.masks) keys = intersect(keys, keys_of_union(masks, row));
    return keys;
  });
}

}  // namespace tilewright::io_model
