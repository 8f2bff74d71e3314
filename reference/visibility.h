// Which keys a query sees, pair by pair, straight from the definitions of docs/semantics.md. Slow
// and obvious on purpose: kernels and tile lists are tested against it and share nothing with it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::reference {

// What masks need that comes only at launch.
struct MaskData {
  // Document ids of the query rows [batch, seqlen_q] and of the keys [batch, seqlen_k].
  std::span<const int32_t> documents_q = {}, documents_k = {};
  // For `blocks`: [blocks_batch, blocks_heads, ceil(seqlen_q / size), ceil(seqlen_k / size)], not 0
  // where visible. blocks_batch is 1 (the same for all) or batch, blocks_heads 1 or num_heads_q.
  std::span<const uint8_t> blocks = {};
  int64_t blocks_batch = 1, blocks_heads = 1;
  // Only these keys count, key_begin <= key < key_end: a part of a call that is split by keys. The
  // positions of queries stay those of the whole.
  int64_t key_begin = 0, key_end = std::numeric_limits<int64_t>::max();
};

// Which rows a Visibility is for: masks may differ by sequence and by query head.
struct MaskPlace {
  int64_t batch = 0, head = 0;
};

// visible(query, key) for raw row indices 0 <= query < seqlen_q, 0 <= key < seqlen_k.
using Visibility = std::function<bool(int64_t query, int64_t key)>;

// kUnsupportedProblem names a mask that has no reference yet, kInvalidArgument one whose launch
// data are absent or too few. The spans of `data` must outlive the result.
Result<Visibility> make_visibility(const Problem& problem, int64_t seqlen_q, int64_t seqlen_k,
                                   const MaskPlace& place = {}, const MaskData& data = {});

// A Visibility for each (batch, query head) of a call.
class HeadVisibilities {
 public:
  static Result<HeadVisibilities> make(const Problem& problem, int64_t batch, int64_t num_heads_q,
                                       int64_t seqlen_q, int64_t seqlen_k, const MaskData& data);
  const Visibility& of(int64_t batch, int64_t head) const {
    return visible_[static_cast<size_t>(batch % batches_ * heads_ + head % heads_)];
  }

 private:
  int64_t batches_ = 1, heads_ = 1;  // 1 where all are alike
  std::vector<Visibility> visible_;
};

// How many pairs are visible, by looking at each.
int64_t count_visible(const Visibility& visible, int64_t seqlen_q, int64_t seqlen_k);

// How many tiles hold a visible pair, by looking at each.
int64_t count_live_tiles(const Visibility& visible, int64_t seqlen_q, int64_t seqlen_k,
                         int64_t tile_rows, int64_t tile_cols);

}  // namespace tilewright::reference
