// Attention in fp64 for one query row, from inputs that are already rounded: what the attention
// programs of this folder compare with.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace third_party {

struct AttentionRow {
  std::vector<double> output;
  std::vector<double> absolute_output;  // sum of p |v|, for the bound
  double score_scale = 0;               // the largest |q| |k| sum times the scale, for the bound
  double maximum = 0;
  double sum = 0;  // of exp(score - maximum)
  double log_sum_exp() const { return maximum + std::log(sum); }
};

// q: one row of head_dim; k and v: num_keys rows. Keys from `visible` on are masked.
template <class T>
AttentionRow attention_row(const T* q, const T* k, const T* v, int visible, int head_dim,
                           double scale) {
  AttentionRow row;
  row.output.assign(size_t(head_dim), 0.0);
  row.absolute_output.assign(size_t(head_dim), 0.0);
  row.maximum = -INFINITY;
  std::vector<double> scores(size_t(visible), 0.0);
  for (int key = 0; key < visible; ++key) {
    double absolute = 0;
    for (int i = 0; i < head_dim; ++i) {
      const double term = double(float(q[i])) * float(k[size_t(key) * head_dim + i]);
      scores[key] += term * scale;
      absolute += std::fabs(term) * scale;
    }
    row.score_scale = std::max(row.score_scale, absolute);
    row.maximum = std::max(row.maximum, scores[key]);
  }
  for (int key = 0; key < visible; ++key) row.sum += std::exp(scores[key] - row.maximum);
  for (int key = 0; key < visible; ++key) {
    const double weight = std::exp(scores[key] - row.maximum) / row.sum;
    for (int i = 0; i < head_dim; ++i) {
      const double term = weight * float(v[size_t(key) * head_dim + i]);
      row.output[i] += term;
      row.absolute_output[i] += std::fabs(term);
    }
  }
  return row;
}

// Each probability is rounded once to T before the second product, and so is the output; a score is
// wrong by the fp32 sum of head_dim terms and what .approx adds, and exp passes that on.
inline double output_bound(const AttentionRow& row, int element, int head_dim, double epsilon) {
  const double score_error =
      (head_dim + 16) * std::ldexp(1.0, -23) * row.score_scale + std::ldexp(1.0, -20);
  return (epsilon + 2 * score_error) * row.absolute_output[element] +
         epsilon * std::fabs(row.output[element]);
}

inline double statistics_bound(const AttentionRow& row, int head_dim) {
  return (head_dim + 16) * std::ldexp(1.0, -23) * row.score_scale + std::ldexp(1.0, -18);
}

}  // namespace third_party
