// VisiblePairs: which (query, key) pairs a problem's masks leave, as sorted key intervals per query
// row, with the two numbers I/O counts need: how many pairs there are, and how many tiles of a
// given size hold at least one.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "io_model/count.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::io_model {

// Half open: begin <= index < end.
struct Span {
  int64_t begin = 0, end = 0;

  constexpr int64_t size() const { return end - begin; }
  constexpr bool contains(int64_t index) const { return begin <= index && index < end; }
  friend constexpr bool operator==(const Span&, const Span&) = default;
};

// The tiles of a grid that hold a visible pair, and sums over them; edge tiles count as they are.
struct Cover {
  Count tiles;
  Count rows;  // sum of the tiles' rows
  Count cols;  // sum of the tiles' columns
  Count area;  // sum of rows * columns
};

// The spans clipped to [0, limit), sorted, what overlaps or touches made one, what is empty
// dropped.
std::vector<Span> merged(std::vector<Span> spans, int64_t limit);

class VisiblePairs {
 public:
  VisiblePairs() = default;  // no queries, no keys
  static VisiblePairs dense(int64_t seqlen_q, int64_t seqlen_k);
  // The masks of `problem`, whose seqlen_q and seqlen_k must be set; where heads differ, of the
  // first. kUnsupportedProblem names a mask whose pairs are known only at launch or to an
  // expression; kOverflow a mask over more rows than can be listed.
  static Result<VisiblePairs> from_problem(const Problem& problem);
  // Key intervals of each row in any order; they are clipped to [0, seqlen_k) and merged.
  static VisiblePairs from_rows(int64_t seqlen_q, int64_t seqlen_k,
                                const std::function<std::vector<Span>(int64_t)>& row);

  int64_t seqlen_q() const { return seqlen_q_; }
  int64_t seqlen_k() const { return seqlen_k_; }
  bool is_dense() const { return row_begin_.empty(); }

  bool visible(int64_t query, int64_t key) const;
  // Whether any pair of the tile is visible.
  bool any(Span queries, Span keys) const;

  Count count() const;
  Cover cover(int64_t tile_rows, int64_t tile_cols) const;
  // Queries that see a key, keys that are seen.
  int64_t live_queries() const;
  int64_t live_keys() const;

 private:
  VisiblePairs(int64_t seqlen_q, int64_t seqlen_k) : seqlen_q_(seqlen_q), seqlen_k_(seqlen_k) {}

  int64_t seqlen_q_ = 0, seqlen_k_ = 0;
  // Intervals of row i: spans_[row_begin_[i] .. row_begin_[i + 1]), sorted and disjoint. Both empty
  // when every pair is visible.
  std::vector<int64_t> row_begin_;
  std::vector<Span> spans_;
};

}  // namespace tilewright::io_model
