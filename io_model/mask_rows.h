// MaskRows: the keys that each query sees under a problem's masks, as intervals, straight from the
// definitions in docs/semantics.md. Counts of pairs and tile lists are made from it. A row is
// listed in time proportional to its intervals, as far as the intervals of its masks overlap.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "io_model/visible_pairs.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"
#include "tilewright/schedule.h"

namespace tilewright::io_model {

// Whose rows: masks may differ by sequence and by query head.
struct MaskPlace {
  int64_t batch = 0, head = 0;
};

class MaskRows {
 public:
  // kUnsupportedProblem for an expression, kInvalidArgument where a mask's data are absent or of a
  // wrong size. Keeps nothing of `data`.
  static Result<MaskRows> make(const Problem& problem, int64_t seqlen_q, int64_t seqlen_k,
                               const MaskPlace& place = {}, const MaskData& data = {});

  // Sorted, disjoint, not touching, within [0, seqlen_k). Not from two threads at once.
  const std::vector<Span>& keys(int64_t query);

  // A row and the keys that the masks before left: a term need not list others.
  struct Row {
    int64_t query = 0;
    int64_t position = 0;  // query + seqlen_k - seqlen_q
    Span keys;
  };
  // Appends the keys of one mask, sorted or not, clipped or not.
  using Term = std::function<void(const Row& row, std::vector<Span>& spans)>;

 private:
  struct Union {
    std::vector<Term> terms;
    bool is_interval = false;  // one term, at most one interval a row
  };

  int64_t seqlen_q_ = 0, seqlen_k_ = 0;
  std::vector<Union> unions_;  // intervals first, as they narrow the rest
  std::vector<Span> keys_, union_keys_, both_;
};

}  // namespace tilewright::io_model
