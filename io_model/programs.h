// What the programs of run.h share: how a product streams its slabs, and the row operations of
// softmax and its gradient. Private to io_model.
#pragma once

#include <cmath>
#include <limits>

#include "io_model/closed_form.h"
#include "io_model/machine.h"
#include "io_model/run.h"

namespace tilewright::io_model {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

inline Span whole(int64_t length) { return {0, length}; }
constexpr Span kOneColumn{0, 1};

// What every program is given.
struct Setting {
  Machine& machine;
  const Case& problem_case;
  double scale;  // softmax_scale

  const Shape& shape() const { return problem_case.shape; }
  const VisiblePairs& pairs() const { return problem_case.pairs; }
};

// A matrix in slow memory, or its transpose.
struct View {
  const Matrix& matrix;
  bool transposed = false;
};
inline View plain(const Matrix& matrix) { return {matrix, false}; }
inline View transposed(const Matrix& matrix) { return {matrix, true}; }

// sum += scale * a(i, :) b(:, j) by slabs of `depth`; slabs that are not `live` are skipped.
template <class Live>
void accumulate(Machine& machine, Tile& sum, const View& a, Span i, const View& b, Span j,
                int64_t inner, int64_t depth, double scale, const Live& live) {
  for (const Span slab : blocks(inner, depth)) {
    if (!live(slab)) continue;
    const Tile left =
        a.transposed ? machine.load(a.matrix, slab, i) : machine.load(a.matrix, i, slab);
    const Tile right =
        b.transposed ? machine.load(b.matrix, j, slab) : machine.load(b.matrix, slab, j);
    multiply_add(machine, sum, {left, a.transposed}, {right, b.transposed}, scale);
  }
}
inline void accumulate(Machine& machine, Tile& sum, const View& a, Span i, const View& b, Span j,
                       int64_t inner, int64_t depth, double scale = 1.0) {
  accumulate(machine, sum, a, i, b, j, inner, depth, scale, [](Span) { return true; });
}

// C = scale a b, every tile stored once.
template <class Live>
void product(Machine& machine, Matrix& c, const View& a, const View& b, int64_t inner,
             const Block& block, double scale, const Live& live) {
  for (const Span i : blocks(c.rows, block.rows)) {
    for (const Span j : blocks(c.cols, block.cols)) {
      Tile sum = machine.accumulator(i.size(), j.size());
      accumulate(machine, sum, a, i, b, j, inner, block.depth, scale,
                 [&](Span slab) { return live(i, slab); });
      machine.store(sum, c, i, j);
    }
  }
}
inline void product(Machine& machine, Matrix& c, const View& a, const View& b, int64_t inner,
                    const Block& block, double scale = 1.0) {
  product(machine, c, a, b, inner, block, scale, [](Span, Span) { return true; });
}

// C (queries x dim) = scale W B and C (keys x dim) = scale W^T B for a W over the pairs.
void product_by_query(const Setting& setting, Matrix& c, const Matrix& w, const Matrix& b,
                      const Block& block, double scale = 1.0);
void product_by_key(const Setting& setting, Matrix& c, const Matrix& w, const Matrix& b,
                    const Block& block, double scale = 1.0);

// --- On tiles in fast memory ---

// Scores of pairs that are not visible become -inf.
void hide(const Setting& setting, Tile& scores, Span i, Span j);
// exp(score - L), 0 where the pair is not visible.
double probability(const Setting& setting, double score, double lse, int64_t query, int64_t key);
void exponentiate(const Setting& setting, Tile& scores, const Tile& lse, Span i, Span j);
// One step of the online softmax: scores become exp(S - new max), row_max and row_sum take them in,
// and rescale(row, factor) is told by what to multiply what was summed under the old maximum.
template <class Rescale>
void online_softmax(const Setting& setting, Tile& scores, Tile& row_max, Tile& row_sum,
                    const Rescale& rescale) {
  if (!setting.machine.arithmetic()) return;
  for (int64_t row = 0; row < scores.rows(); ++row) {
    double new_max = row_max.at(row);
    for (int64_t col = 0; col < scores.cols(); ++col) {
      new_max = std::fmax(new_max, scores.at(row, col));
    }
    if (new_max == kMinusInfinity) {  // nothing visible yet
      for (int64_t col = 0; col < scores.cols(); ++col) scores.at(row, col) = 0;
      rescale(row, 1.0);
      continue;
    }
    const double factor = std::exp(row_max.at(row) - new_max);
    double sum = factor * row_sum.at(row);
    for (int64_t col = 0; col < scores.cols(); ++col) {
      scores.at(row, col) = std::exp(scores.at(row, col) - new_max);
      sum += scores.at(row, col);
    }
    rescale(row, factor);
    row_max.at(row) = new_max;
    row_sum.at(row) = sum;
  }
}
// row_max becomes L = max + ln sum.
void finish_lse(const Setting& setting, Tile& row_max, const Tile& row_sum);
// dS = P * (dP - D), in dP's place.
void score_gradient(const Setting& setting, Tile& d_scores, const Tile& probabilities,
                    const Tile& row_dots);
// The same for one row of dS, whose P has just been read.
void score_gradient_row(Tile& d_scores, int64_t row, const Tile& probabilities_row, double row_dot);

// The square-tile stages shared by the attention and weight programs.
// S = scale Q K^T stored; L online and stored.
void store_scores(const Setting& setting, const Matrix& q, const Matrix& k, Matrix& scores,
                  Matrix& lse, const Block& block);
// sum += exp(S(i, :) - L) B(:, c): slabs of B, and in front of each the scores a row at a time.
void accumulate_probabilities(const Setting& setting, Tile& sum, const Matrix& scores,
                              const Tile& lse, Span i, const Matrix& b, Span c, int64_t depth);
// D_i = <dO_i, O_i>
void store_row_dots(const Setting& setting, Attention& x, int64_t depth);

// The programs.
void standard_ideal_forward(const Setting& setting, Attention& x);
void standard_tiled_forward(const Setting& setting, Attention& x, const Tiles& tiles);
void flash1_forward(const Setting& setting, Attention& x, const Block& block);
void flash2_forward(const Setting& setting, Attention& x, const Block& block);
void square_forward(const Setting& setting, Attention& x, const Tiles& tiles);

void standard_ideal_backward(const Setting& setting, Attention& x);
void standard_tiled_backward(const Setting& setting, Attention& x, const Tiles& tiles);
void flash1_backward(const Setting& setting, Attention& x, const Block& block);
void one_pass_backward(const Setting& setting, Attention& x, const Tiles& tiles);
void two_pass_backward(const Setting& setting, Attention& x, const Tiles& tiles);
void small_cache_backward(const Setting& setting, Attention& x, const Tiles& tiles);
void small_cache_kept_backward(const Setting& setting, Attention& x, const Tiles& tiles);

void large_cache_weights(const Setting& setting, Weights& x, const Tiles& tiles);
void small_cache_weights(const Setting& setting, Weights& x, const Tiles& tiles, bool both);

}  // namespace tilewright::io_model
