// Attention of sparse inputs, the setting of theorem 4.5: Q, K and V as compressed rows in slow
// memory, only pairs whose rows share a column take part. A baseline to hold against the theorem's
// expression; no matching algorithm is known, so the gap between the two is an open question.
#pragma once

#include <cstdint>
#include <vector>

#include "io_model/count.h"
#include "io_model/machine.h"
#include "tilewright/result.h"

namespace tilewright::io_model {

// Compressed rows. In slow memory a row is its number of nonzeros, then (column, value) of each:
// 1 + 2 nonzeros words.
struct SparseMatrix {
  struct Nonzero {
    int64_t column;
    double value;
  };
  int64_t cols = 0;
  std::vector<std::vector<Nonzero>> rows;

  int64_t nonzeros() const;
};

struct SparseForward {
  Matrix out;  // dense, rows of Q by columns of V; 0 for a row without pairs
  Traffic traffic;
  double input_nonzeros = 0;    // Z_in: the mean of the three, so that dense inputs give n d
  double score_nonzeros = 0;    // Z_QK: pairs whose rows share a column
  double asymptotic_bound = 0;  // theorem 4.5 with its constant taken as 1

  double achieved_over_bound() const {
    return static_cast<double>(traffic.total().value()) / asymptotic_bound;
  }
};

// As many rows of Q as fit stay with their outputs, and rows of K go by; a row of V is read only if
// a pair needs it. kOutOfMemory if one row of each does not fit into `fast_words`.
Result<SparseForward> sparse_forward(const SparseMatrix& q, const SparseMatrix& k,
                                     const SparseMatrix& v, double softmax_scale,
                                     int64_t fast_words);

}  // namespace tilewright::io_model
