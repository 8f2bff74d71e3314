#include "io_model/mask_rows.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "core/bigbird.h"
#include "core/check.h"

namespace tilewright::io_model {
namespace {

using Spans = std::vector<Span>;
using Row = MaskRows::Row;
using Term = MaskRows::Term;

constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 4;

struct Context {
  int64_t seqlen_q, seqlen_k;
  MaskPlace place;
  const MaskData& data;
};

// The mask's keys within the row's, where the mask is a sorted list of disjoint spans.
void append_overlapping(const Spans& sorted, const Row& row, Spans& spans) {
  auto at = std::partition_point(sorted.begin(), sorted.end(),
                                 [&](const Span& s) { return s.end <= row.keys.begin; });
  for (; at != sorted.end() && at->begin < row.keys.end; ++at) spans.push_back(*at);
}

// A window's distance, which counts steps of the dilation.
int64_t reach(const std::optional<int64_t>& distance, int64_t dilation) {
  return distance && *distance < kFar / dilation ? *distance * dilation : kFar;
}

Result<Term> term_of(const CausalMask& mask, const Context&) {
  const bool top_left = mask.alignment == MaskAlignment::kTopLeft;
  return Term([top_left](const Row& row, Spans& spans) {
    spans.push_back({0, (top_left ? row.query : row.position) + 1});
  });
}

Result<Term> term_of(const WindowMask& mask, const Context&) {
  const int64_t left = reach(mask.left, mask.dilation), right = reach(mask.right, mask.dilation);
  return Term([left, right, dilation = mask.dilation](const Row& row, Spans& spans) {
    const Span keys{row.position - left, row.position + right + 1};
    if (dilation == 1) {
      spans.push_back(keys);
      return;
    }
    int64_t key = std::max(keys.begin, row.keys.begin);
    key += ((row.position - key) % dilation + dilation) % dilation;
    for (; key < std::min(keys.end, row.keys.end); key += dilation) spans.push_back({key, key + 1});
  });
}

Result<Term> term_of(const PrefixMask& mask, const Context&) {
  return Term([length = mask.length](const Row&, Spans& spans) { spans.push_back({0, length}); });
}

Result<Term> term_of(const GlobalMask& mask, const Context&) {
  Spans globals;
  if (mask.count > 0) globals.push_back({0, mask.count});
  for (const int64_t index : mask.indices) globals.push_back({index, index + 1});
  globals = merged(std::move(globals), kFar);
  return Term([globals = std::move(globals)](const Row& row, Spans& spans) {
    const auto at = std::partition_point(globals.begin(), globals.end(),
                                         [&](const Span& s) { return s.end <= row.position; });
    if (at != globals.end() && at->contains(row.position)) {
      spans.push_back(row.keys);
    } else {
      append_overlapping(globals, row, spans);
    }
  });
}

Result<Term> term_of(const LongformerMask& mask, const Context& context) {
  TW_ASSIGN(Term global, term_of(GlobalMask{.count = 0, .indices = mask.global}, context));
  return Term([global = std::move(global), half = mask.window / 2](const Row& row, Spans& spans) {
    global(row, spans);
    spans.push_back({row.position - half, row.position + half + 1});
  });
}

Result<Term> term_of(const ChunkMask& mask, const Context&) {
  return Term([size = mask.size](const Row& row, Spans& spans) {
    if (row.position < 0) return;
    spans.push_back({row.position / size * size, row.position + 1});
  });
}

// Blocks of keys as spans of keys, neighbours made one.
Spans spans_of_blocks(const std::vector<int64_t>& blocks, int64_t size) {
  Spans spans;
  for (const int64_t block : blocks) spans.push_back({block * size, (block + 1) * size});
  return merged(std::move(spans), kFar);
}

Result<Term> term_of(const BigBirdMask& mask, const Context& context) {
  const int64_t num_blocks = ceil_div(context.seqlen_k, mask.block);
  std::vector<Spans> rows;
  for (int64_t row = 0; row < num_blocks; ++row) {
    if (bigbird_is_global(mask, num_blocks, row)) {
      rows.push_back({{0, context.seqlen_k}});
    } else {
      rows.push_back(spans_of_blocks(bigbird_key_blocks(mask, num_blocks, context.place.head, row),
                                     mask.block));
    }
  }
  return Term([rows = std::move(rows), size = mask.block](const Row& row, Spans& spans) {
    if (row.position < 0) return;
    append_overlapping(rows[static_cast<size_t>(row.position / size)], row, spans);
  });
}

Result<Term> term_of(const DocumentsMask&, const Context& context) {
  const auto& [queries, keys, place, data] = context;
  if (std::ssize(data.documents_q) < (place.batch + 1) * queries ||
      std::ssize(data.documents_k) < (place.batch + 1) * keys) {
    return make_error(ErrorCode::kInvalidArgument,
                      "documents: {} ids of queries and {} ids of keys are too few for sequence {} "
                      "of {} queries and {} keys",
                      data.documents_q.size(), data.documents_k.size(), place.batch, queries, keys);
  }
  const auto at = [](std::span<const int32_t> ids, int64_t batch, int64_t length) {
    return ids.subspan(static_cast<size_t>(batch * length), static_cast<size_t>(length));
  };
  std::map<int32_t, Spans> keys_of_id;
  const std::span<const int32_t> ids = at(data.documents_k, place.batch, keys);
  for (int64_t key = 0; key < keys; ++key) {
    Spans& spans = keys_of_id[ids[static_cast<size_t>(key)]];
    if (spans.empty() || spans.back().end != key) spans.push_back({key, key});
    ++spans.back().end;
  }
  // By row, so that a row costs no search.
  std::vector<int32_t> query_ids;
  for (const int32_t id : at(data.documents_q, place.batch, queries)) query_ids.push_back(id);
  return Term([keys_of_id = std::move(keys_of_id), query_ids = std::move(query_ids)](const Row& row,
                                                                                     Spans& spans) {
    const auto found = keys_of_id.find(query_ids[static_cast<size_t>(row.query)]);
    if (found != keys_of_id.end()) append_overlapping(found->second, row, spans);
  });
}

Result<Term> term_of(const BlocksMask& mask, const Context& context) {
  const auto& [queries, keys, place, data] = context;
  const int64_t rows = ceil_div(queries, mask.size), columns = ceil_div(keys, mask.size);
  const int64_t batch = data.blocks_batch == 1 ? 0 : place.batch;
  const int64_t head = data.blocks_heads == 1 ? 0 : place.head;
  if (batch >= data.blocks_batch || head >= data.blocks_heads ||
      std::ssize(data.blocks) != data.blocks_batch * data.blocks_heads * rows * columns) {
    return make_error(ErrorCode::kInvalidArgument,
                      "blocks={}: {} flags given, {} batches of {} heads of {} x {} blocks wanted",
                      mask.size, data.blocks.size(), data.blocks_batch, data.blocks_heads, rows,
                      columns);
  }
  std::vector<Spans> spans_of_row(static_cast<size_t>(rows));
  size_t flag = static_cast<size_t>((batch * data.blocks_heads + head) * rows * columns);
  for (Spans& spans : spans_of_row) {
    for (int64_t column = 0; column < columns; ++column) {
      if (data.blocks[flag++] == 0) continue;
      const int64_t begin = column * mask.size;
      if (spans.empty() || spans.back().end != begin) spans.push_back({begin, begin});
      spans.back().end += mask.size;
    }
  }
  return Term(
      [spans_of_row = std::move(spans_of_row), size = mask.size](const Row& row, Spans& spans) {
        append_overlapping(spans_of_row[static_cast<size_t>(row.query / size)], row, spans);
      });
}

Result<Term> term_of(const ExpressionMask& mask, const Context&) {
  return make_error(ErrorCode::kUnsupportedProblem, "the mask '{}' cannot be listed as intervals",
                    mask.expression);
}

bool is_interval(const Mask& mask) {
  const auto* window = std::get_if<WindowMask>(&mask);
  return std::holds_alternative<CausalMask>(mask) || std::holds_alternative<ChunkMask>(mask) ||
         std::holds_alternative<PrefixMask>(mask) || (window != nullptr && window->dilation == 1);
}

void intersect(const Spans& a, const Spans& b, Spans& both) {
  both.clear();
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Span common{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (common.size() > 0) both.push_back(common);
    (a[i].end < b[j].end ? i : j) += 1;
  }
}

}  // namespace

Result<MaskRows> MaskRows::make(const Problem& problem, int64_t seqlen_q, int64_t seqlen_k,
                                const MaskPlace& place, const MaskData& data) {
  MaskRows rows;
  rows.seqlen_q_ = seqlen_q;
  rows.seqlen_k_ = seqlen_k;
  const Context context{seqlen_q, seqlen_k, place, data};
  for (const MaskUnion& masks : problem.masks) {
    Union made;
    made.is_interval = masks.terms.size() == 1 && is_interval(masks.terms[0]);
    for (const Mask& mask : masks.terms) {
      TW_ASSIGN(Term term,
                std::visit([&](const auto& value) { return term_of(value, context); }, mask));
      made.terms.push_back(std::move(term));
    }
    rows.unions_.push_back(std::move(made));
  }
  std::stable_partition(rows.unions_.begin(), rows.unions_.end(),
                        [](const Union& each) { return each.is_interval; });
  return rows;
}

const std::vector<Span>& MaskRows::keys(int64_t query) {
  keys_.assign(1, {0, seqlen_k_});
  for (const Union& masks : unions_) {
    if (keys_.empty()) break;
    const Row row{query, query + seqlen_k_ - seqlen_q_, {keys_.front().begin, keys_.back().end}};
    union_keys_.clear();
    for (const Term& term : masks.terms) term(row, union_keys_);
    union_keys_ = merged(std::move(union_keys_), seqlen_k_);
    intersect(keys_, union_keys_, both_);
    keys_.swap(both_);
  }
  if (seqlen_k_ == 0) keys_.clear();
  return keys_;
}

}  // namespace tilewright::io_model
