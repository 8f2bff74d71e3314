// The scores of one query row in fp64: what forward, backward and their bounds have in common.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "reference/attention.h"
#include "reference/visibility.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::reference {

Result<HeadVisibilities> head_visibilities(const Problem& problem, const Sizes& sizes,
                                           const MaskData& data);

struct ScoreParameters {
  double scale;
  double softcap;  // 0 = none
};

ScoreParameters score_parameters(const Problem& problem, const Sizes& sizes);

// kUnsupportedProblem with every part of the problem that softmax attention has no reference for.
Status check_softmax_supported(const Problem& problem);

// Jobs for parallel_for: small calls are done sooner by one thread than threads are started.
int parallel_jobs(const Sizes& sizes);

struct RowIndex {
  int64_t batch, head, query;
};

// Where the rows of one call's tensors begin: contiguous bshd, lse [batch, num_heads_q, seqlen_q].
struct RowOffsets {
  const Sizes& sizes;

  size_t lse(const RowIndex& row) const {
    return static_cast<size_t>((row.batch * sizes.num_heads_q + row.head) * sizes.seqlen_q +
                               row.query);
  }
  size_t q(const RowIndex& row) const { return query_row(row) * dim(sizes.head_dim_qk); }
  size_t out(const RowIndex& row) const { return query_row(row) * dim(sizes.head_dim_v); }
  size_t k(const RowIndex& row, int64_t key) const {
    return key_row(row, key) * dim(sizes.head_dim_qk);
  }
  size_t v(const RowIndex& row, int64_t key) const {
    return key_row(row, key) * dim(sizes.head_dim_v);
  }

 private:
  static size_t dim(int64_t value) { return static_cast<size_t>(value); }
  size_t query_row(const RowIndex& row) const {
    return static_cast<size_t>((row.batch * sizes.seqlen_q + row.query) * sizes.num_heads_q +
                               row.head);
  }
  size_t key_row(const RowIndex& row, int64_t key) const {
    const int64_t head_kv = row.head / (sizes.num_heads_q / sizes.num_heads_kv);
    return static_cast<size_t>((row.batch * sizes.seqlen_k + key) * sizes.num_heads_kv + head_kv);
  }
};

// The visible keys of one query row and their scores, in key order.
struct RowScores {
  std::vector<int64_t> keys;
  std::vector<double> scores;  // after scale and softcap
  double max = -std::numeric_limits<double>::infinity();
  double min = std::numeric_limits<double>::infinity();
  double magnitude = 0.0;  // max over keys of |scale| * sum |q||k|

  // Natural log of the sum of exponentials; -inf without keys.
  double lse() const;
};

RowScores score_row(const Sizes& sizes, const Inputs& inputs, const Visibility& visible,
                    const ScoreParameters& parameters, const RowIndex& row);

// The same in fp32, plainly.
struct PlainRowScores {
  std::vector<int64_t> keys;
  std::vector<float> scores;
  float max = -std::numeric_limits<float>::infinity();
};

PlainRowScores plain_score_row(const Sizes& sizes, const Inputs& inputs, const Visibility& visible,
                               const ScoreParameters& parameters, const RowIndex& row);

}  // namespace tilewright::reference
