// What the I/O tests share: cases, seeded tensors, and attention with its gradients in fp64 written
// the obvious way, sharing nothing with io_model.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "io_model/bounds.h"
#include "io_model/closed_form.h"
#include "io_model/run.h"

namespace tilewright::io_model {

using Visible = std::function<bool(int64_t, int64_t)>;
inline bool all_visible(int64_t, int64_t) { return true; }

inline void fill_random(Matrix& matrix, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  // Exactly representable in fp32, so that reference/ sees the same inputs.
  for (double& value : matrix.values)
    value = static_cast<double>(static_cast<float>(normal(engine)));
}

struct Gradients {
  Matrix out, lse, probabilities, dq, dk, dv;
};

inline Matrix zeros(int64_t rows, int64_t cols) {
  return {rows, cols, std::vector<double>(static_cast<size_t>(rows * cols), 0.0)};
}

// O, L and P of visible pairs; 0, -inf and 0 for a row without keys.
inline Gradients plain_attention(const Matrix& q, const Matrix& k, const Matrix& v, double scale,
                                 const Visible& visible) {
  Gradients g{zeros(q.rows, v.cols), zeros(q.rows, 1),      zeros(q.rows, k.rows),
              zeros(q.rows, q.cols), zeros(k.rows, k.cols), zeros(v.rows, v.cols)};
  for (int64_t i = 0; i < q.rows; ++i) {
    double sum = 0, max = -std::numeric_limits<double>::infinity();
    std::vector<double> scores(static_cast<size_t>(k.rows), max);
    for (int64_t j = 0; j < k.rows; ++j) {
      if (!visible(i, j)) continue;
      double dot = 0;
      for (int64_t c = 0; c < q.cols; ++c) dot += q.at(i, c) * k.at(j, c);
      scores[static_cast<size_t>(j)] = scale * dot;
      max = std::max(max, scale * dot);
    }
    for (int64_t j = 0; j < k.rows; ++j) {
      if (visible(i, j)) sum += std::exp(scores[static_cast<size_t>(j)] - max);
    }
    g.lse.at(i, 0) = max + std::log(sum);
    for (int64_t j = 0; j < k.rows; ++j) {
      if (!visible(i, j)) continue;
      g.probabilities.at(i, j) = std::exp(scores[static_cast<size_t>(j)] - g.lse.at(i, 0));
      for (int64_t c = 0; c < v.cols; ++c) {
        g.out.at(i, c) += g.probabilities.at(i, j) * v.at(j, c);
      }
    }
  }
  return g;
}

// The above with dQ, dK, dV for the upstream gradient d_out.
inline Gradients plain_gradients(const Matrix& q, const Matrix& k, const Matrix& v,
                                 const Matrix& d_out, double scale, const Visible& visible) {
  Gradients g = plain_attention(q, k, v, scale, visible);
  for (int64_t i = 0; i < q.rows; ++i) {
    double row_dot = 0;
    for (int64_t c = 0; c < v.cols; ++c) row_dot += d_out.at(i, c) * g.out.at(i, c);
    for (int64_t j = 0; j < k.rows; ++j) {
      const double p = g.probabilities.at(i, j);
      double dp = 0;
      for (int64_t c = 0; c < v.cols; ++c) {
        dp += d_out.at(i, c) * v.at(j, c);
        g.dv.at(j, c) += p * d_out.at(i, c);
      }
      const double ds = scale * p * (dp - row_dot);
      for (int64_t c = 0; c < q.cols; ++c) {
        g.dq.at(i, c) += ds * k.at(j, c);
        g.dk.at(j, c) += ds * q.at(i, c);
      }
    }
  }
  return g;
}

// The largest |a - b|; infinity if a NaN is among them or exactly one of the two is infinite.
inline double max_difference(const Matrix& a, const Matrix& b) {
  double worst = 0;
  for (size_t at = 0; at < a.values.size(); ++at) {
    if (a.values[at] == b.values[at]) continue;
    const double difference = std::fabs(a.values[at] - b.values[at]);
    if (!(difference <= worst)) worst = std::isnan(difference) ? HUGE_VAL : difference;
  }
  return worst;
}

// Tensors with random Q, K, V, dO.
inline Attention random_attention(const Machine& machine, const Case& problem_case, unsigned seed) {
  Attention x = make_attention(machine, problem_case.shape);
  fill_random(x.q, seed);
  fill_random(x.k, seed + 1);
  fill_random(x.v, seed + 2);
  fill_random(x.d_out, seed + 3);
  return x;
}

// What a backward finds besides: O, L (and flash1's statistics) and, where it is given, P.
inline void give_forward_results(Attention& x, const Gradients& forward, bool probabilities) {
  x.out = forward.out;
  x.lse = forward.lse;
  x.row_max = forward.lse;
  for (double& value : x.row_sum.values) value = 1;  // L = max + ln 1
  if (probabilities) x.probabilities = forward.probabilities;
}

}  // namespace tilewright::io_model
