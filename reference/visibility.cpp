#include "reference/visibility.h"

#include <algorithm>
#include <utility>

#include "core/bigbird.h"
#include "core/check.h"

namespace tilewright::reference {
namespace {

// Floor division for a positive divisor.
int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

struct Lengths {
  int64_t seqlen_q, seqlen_k;
  // The key position at which a query stands.
  int64_t position(int64_t query) const { return query + seqlen_k - seqlen_q; }
};

bool within_window(int64_t distance, const WindowMask& mask) {
  if (mask.left && distance < -*mask.left * mask.dilation) return false;
  if (mask.right && distance > *mask.right * mask.dilation) return false;
  return distance % mask.dilation == 0;
}

bool is_global(const GlobalMask& mask, int64_t position) {
  if (!mask.indices.empty()) {
    return std::find(mask.indices.begin(), mask.indices.end(), position) != mask.indices.end();
  }
  return 0 <= position && position < mask.count;
}

// The pattern of one head as a table of blocks. A query before the first key sees nothing.
Visibility bigbird_visibility(const BigBirdMask& mask, Lengths lengths, int64_t head) {
  const int64_t num_blocks = (lengths.seqlen_k + mask.block - 1) / mask.block;
  std::vector<std::vector<bool>> attends(static_cast<size_t>(num_blocks),
                                         std::vector<bool>(static_cast<size_t>(num_blocks), false));
  for (int64_t row = 0; row < num_blocks; ++row) {
    for (const int64_t block : bigbird_key_blocks(mask, num_blocks, head, row)) {
      attends[static_cast<size_t>(row)][static_cast<size_t>(block)] = true;
    }
  }
  return [=, attends = std::move(attends), size = mask.block](int64_t query, int64_t key) -> bool {
    const int64_t position = lengths.position(query);
    return position >= 0 &&
           attends[static_cast<size_t>(position / size)][static_cast<size_t>(key / size)];
  };
}

Result<Visibility> documents_visibility(Lengths lengths, int64_t batch, const MaskData& data) {
  if (std::ssize(data.documents_q) < (batch + 1) * lengths.seqlen_q ||
      std::ssize(data.documents_k) < (batch + 1) * lengths.seqlen_k) {
    return make_error(ErrorCode::kInvalidArgument,
                      "documents: {} query ids and {} key ids are too few for batch index {} of "
                      "{} queries and {} keys",
                      data.documents_q.size(), data.documents_k.size(), batch, lengths.seqlen_q,
                      lengths.seqlen_k);
  }
  return Visibility([ids_q = data.documents_q.data() + batch * lengths.seqlen_q,
                     ids_k = data.documents_k.data() + batch * lengths.seqlen_k](
                        int64_t query, int64_t key) { return ids_q[query] == ids_k[key]; });
}

Result<Visibility> blocks_visibility(int64_t size, Lengths lengths, const MaskPlace& place,
                                     const MaskData& data) {
  const int64_t rows = (lengths.seqlen_q + size - 1) / size;
  const int64_t cols = (lengths.seqlen_k + size - 1) / size;
  const int64_t batch = data.blocks_batch == 1 ? 0 : place.batch;
  const int64_t head = data.blocks_heads == 1 ? 0 : place.head;
  if (batch >= data.blocks_batch || head >= data.blocks_heads ||
      std::ssize(data.blocks) != data.blocks_batch * data.blocks_heads * rows * cols) {
    return make_error(ErrorCode::kInvalidArgument,
                      "blocks={}: {} flags are not {} batches of {} heads of {} x {} blocks", size,
                      data.blocks.size(), data.blocks_batch, data.blocks_heads, rows, cols);
  }
  return Visibility(
      [=, flags = data.blocks.data() + (batch * data.blocks_heads + head) * rows * cols](
          int64_t query, int64_t key) { return flags[query / size * cols + key / size] != 0; });
}

Result<Visibility> term_visibility(const Mask& mask, Lengths lengths, const MaskPlace& place,
                                   const MaskData& data) {
  if (const auto* causal = std::get_if<CausalMask>(&mask)) {
    const bool top_left = causal->alignment == MaskAlignment::kTopLeft;
    return Visibility([=](int64_t query, int64_t key) {
      return key <= (top_left ? query : lengths.position(query));
    });
  }
  if (const auto* window = std::get_if<WindowMask>(&mask)) {
    return Visibility([=, window = *window](int64_t query, int64_t key) {
      return within_window(key - lengths.position(query), window);
    });
  }
  if (const auto* prefix = std::get_if<PrefixMask>(&mask)) {
    return Visibility([length = prefix->length](int64_t, int64_t key) { return key < length; });
  }
  if (const auto* global = std::get_if<GlobalMask>(&mask)) {
    return Visibility([=, global = *global](int64_t query, int64_t key) {
      return is_global(global, key) || is_global(global, lengths.position(query));
    });
  }
  if (const auto* longformer = std::get_if<LongformerMask>(&mask)) {
    const WindowMask window{longformer->window / 2, longformer->window / 2, 1};
    const GlobalMask global{0, longformer->global};
    return Visibility([=](int64_t query, int64_t key) {
      const int64_t position = lengths.position(query);
      return within_window(key - position, window) ||
             (!global.indices.empty() && (is_global(global, key) || is_global(global, position)));
    });
  }
  if (const auto* chunk = std::get_if<ChunkMask>(&mask)) {
    return Visibility([=, size = chunk->size](int64_t query, int64_t key) {
      const int64_t position = lengths.position(query);
      return key <= position && floor_div(key, size) == floor_div(position, size);
    });
  }
  if (const auto* bigbird = std::get_if<BigBirdMask>(&mask)) {
    return bigbird_visibility(*bigbird, lengths, place.head);
  }
  if (std::holds_alternative<DocumentsMask>(mask)) {
    return documents_visibility(lengths, place.batch, data);
  }
  if (const auto* blocks = std::get_if<BlocksMask>(&mask)) {
    return blocks_visibility(blocks->size, lengths, place, data);
  }
  return make_error(ErrorCode::kUnsupportedProblem, "mask number {} has no fp64 reference yet",
                    mask.index());
}

}  // namespace

Result<Visibility> make_visibility(const Problem& problem, int64_t seqlen_q, int64_t seqlen_k,
                                   const MaskPlace& place, const MaskData& data) {
  std::vector<std::vector<Visibility>> unions;
  for (const MaskUnion& mask_union : problem.masks) {
    std::vector<Visibility> terms;
    for (const Mask& mask : mask_union.terms) {
      TW_ASSIGN(Visibility term, term_visibility(mask, {seqlen_q, seqlen_k}, place, data));
      terms.push_back(std::move(term));
    }
    unions.push_back(std::move(terms));
  }
  return Visibility([unions = std::move(unions), begin = data.key_begin, end = data.key_end](
                        int64_t query, int64_t key) {
    return begin <= key && key < end &&
           std::all_of(unions.begin(), unions.end(), [&](const std::vector<Visibility>& terms) {
             return std::any_of(terms.begin(), terms.end(),
                                [&](const Visibility& term) { return term(query, key); });
           });
  });
}

Result<HeadVisibilities> HeadVisibilities::make(const Problem& problem, int64_t batch,
                                                int64_t num_heads_q, int64_t seqlen_q,
                                                int64_t seqlen_k, const MaskData& data) {
  HeadVisibilities result;
  for (const MaskUnion& mask_union : problem.masks) {
    for (const Mask& mask : mask_union.terms) {
      if (std::holds_alternative<BigBirdMask>(mask)) result.heads_ = num_heads_q;
      if (std::holds_alternative<DocumentsMask>(mask)) result.batches_ = batch;
      if (std::holds_alternative<BlocksMask>(mask)) {
        if (data.blocks_batch > 1) result.batches_ = batch;
        if (data.blocks_heads > 1) result.heads_ = num_heads_q;
      }
    }
  }
  for (int64_t b = 0; b < result.batches_; ++b) {
    for (int64_t head = 0; head < result.heads_; ++head) {
      TW_ASSIGN(Visibility visible, make_visibility(problem, seqlen_q, seqlen_k, {b, head}, data));
      result.visible_.push_back(std::move(visible));
    }
  }
  return result;
}

int64_t count_visible(const Visibility& visible, int64_t seqlen_q, int64_t seqlen_k) {
  int64_t count = 0;
  for (int64_t query = 0; query < seqlen_q; ++query) {
    for (int64_t key = 0; key < seqlen_k; ++key) count += visible(query, key) ? 1 : 0;
  }
  return count;
}

int64_t count_live_tiles(const Visibility& visible, int64_t seqlen_q, int64_t seqlen_k,
                         int64_t tile_rows, int64_t tile_cols) {
  const int64_t cols = (seqlen_k + tile_cols - 1) / tile_cols;
  int64_t count = 0;
  for (int64_t begin = 0; begin < seqlen_q; begin += tile_rows) {
    std::vector<bool> live(static_cast<size_t>(cols), false);
    for (int64_t query = begin; query < std::min(begin + tile_rows, seqlen_q); ++query) {
      for (int64_t key = 0; key < seqlen_k; ++key) {
        if (visible(query, key)) live[static_cast<size_t>(key / tile_cols)] = true;
      }
    }
    count += std::count(live.begin(), live.end(), true);
  }
  return count;
}

}  // namespace tilewright::reference
