#include "reference/gradient_bound.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "core/check.h"
#include "reference/error_bound.h"
#include "reference/gradient_row.h"
#include "reference/rounding.h"
#include "reference/score_row.h"

namespace tilewright::reference {
namespace {

// The errors of one query row that do not depend on the key.
struct RowErrors {
  double weight;       // of P, relative: score and lse, both through the exponential
  double score;        // of a score, absolute
  double delta;        // of D, absolute
  double delta_usual;  // the same, roundings in quadrature
};

// One term of a sum, without its factor: size, bound of its error, usual error.
struct Term {
  double value, error, usual;
};

class Bounds {
 public:
  Bounds(const Problem& problem, const Sizes& sizes, const BackwardInputs& inputs, Dtype dtype,
         const Forward& forward, ExpectedGradients& expected)
      : problem_(problem),
        sizes_(sizes),
        inputs_(inputs),
        dtype_(dtype),
        forward_(forward),
        expected_(expected),
        parameters_(score_parameters(problem, sizes)) {}

  // Adds the errors of one row's terms; finish() makes bounds of the sums.
  void add_row(const Visibility& visible, const RowIndex& row) {
    const GradientRow terms = gradient_row(sizes_, inputs_, visible, parameters_, row);
    if (terms.scores.keys.empty()) return;
    const RowErrors errors = row_errors(row);
    const RowOffsets at{sizes_};
    const float* q = inputs_.forward.q.data() + at.q(row);
    const float* dout = inputs_.dout.data() + at.out(row);
    const auto width_qk = static_cast<size_t>(sizes_.head_dim_qk);
    const auto width_v = static_cast<size_t>(sizes_.head_dim_v);
    const double scale = std::fabs(parameters_.scale);
    const bool uncertain = errors.weight >= 1.0;
    // D's error moves all terms of the row the same way: of dQ, their sum with signs.
    std::vector<double> weighted_k(static_cast<size_t>(sizes_.head_dim_qk), 0.0);
    for (size_t i = 0; i < terms.scores.keys.size(); ++i) {
      const int64_t key = terms.scores.keys[i];
      const double p = terms.weights[i], scaled_p = scale * p * terms.slopes[i];
      const double ds = scaled_p * std::fabs(terms.dp[i] - terms.delta);
      const double error = ds_error(terms, i, errors);
      const float* k = inputs_.forward.k.data() + at.k(row, key);
      // P and dS are both rounded; dV has P only, once through the exponential and once rounded.
      const double ds_usual = 0.5 * epsilon(dtype_) * std::numbers::sqrt2 * ds;
      const double delta_usual = scaled_p * errors.delta_usual;
      add({ds, error, ds_usual}, {k, width_qk}, expected_.dq, at.q(row));
      add({ds, error, std::hypot(ds_usual, delta_usual)}, {q, width_qk}, expected_.dk,
          at.k(row, key));
      add({p, p * (compounded(errors.weight, 1) - 1.0) + underflow(dtype_),
           0.5 * epsilon(dtype_) * p},
          {dout, width_v}, expected_.dv, at.v(row, key));
      for (size_t c = 0; c < width_qk; ++c) weighted_k[c] += delta_usual * double{k[c]};
      if (uncertain) {
        mark(expected_.dk, at.k(row, key), width_qk);
        mark(expected_.dv, at.v(row, key), width_v);
      }
    }
    if (uncertain) mark(expected_.dq, at.q(row), width_qk);
    for (size_t c = 0; c < width_qk; ++c) {
      expected_.dq.typical[at.q(row) + c] += weighted_k[c] * weighted_k[c];
    }
  }

  void finish() {
    const auto group_size = static_cast<double>(sizes_.num_heads_q) /
                            static_cast<double>(std::max<int64_t>(sizes_.num_heads_kv, 1));
    finish(expected_.dq, static_cast<double>(sizes_.seqlen_k));
    finish(expected_.dk, static_cast<double>(sizes_.seqlen_q) * group_size);
    finish(expected_.dv, static_cast<double>(sizes_.seqlen_q) * group_size);
  }

 private:
  // (1 + error) times `roundings` roundings to the kernel's type.
  double compounded(double error, int roundings) const {
    return (1.0 + error) * std::pow(1.0 + 0.5 * epsilon(dtype_), roundings);
  }

  RowErrors row_errors(const RowIndex& row) const {
    const RowOffsets at{sizes_};
    const size_t flat = at.lse(row);
    const double score =
        score_error(problem_, sizes_, forward_.score_magnitude[flat], forward_.score_range[flat]);
    // The kernel's argument is score − lse: lse has the forward's error, and turning it to base 2
    // and subtracting it rounds numbers of its size three times.
    const double argument = score + lse_bound(problem_, sizes_, forward_, flat) +
                            3.0 * kFloatRounding * std::fabs(forward_.lse[flat]);
    // D = <dO, O> with an O that is within its bound, summed in fp32 in any order.
    double delta = 0.0, magnitude = 0.0, squares = 0.0;
    for (size_t c = 0; c < static_cast<size_t>(sizes_.head_dim_v); ++c) {
      const size_t i = at.out(row) + c;
      const double dout = std::fabs(double{inputs_.dout[i]});
      const double out_error = out_bound(problem_, sizes_, dtype_, forward_, i, flat).bound;
      delta += dout * out_error;
      magnitude += dout * (std::fabs(forward_.out[i]) + out_error);
      squares += dout * dout * forward_.out[i] * forward_.out[i];
    }
    delta += static_cast<double>(sizes_.head_dim_v) * kFloatRounding * magnitude;
    return {std::expm1(argument), score, delta, 0.5 * epsilon(dtype_) * std::sqrt(squares)};
  }

  // Of scale · P (dP − D) slope, as it stands before the products with K and Q.
  double ds_error(const GradientRow& terms, size_t i, const RowErrors& errors) const {
    const double p = terms.weights[i], slope = terms.slopes[i];
    const double difference = std::fabs(terms.dp[i] - terms.delta);
    const double scale = std::fabs(parameters_.scale);
    // P may be held in the kernel's type, dS is; four fp32 products and differences on the way.
    const double growth = compounded(errors.weight, 2) * (1.0 + 4.0 * kFloatRounding);
    const double dp_error = (std::ceil(static_cast<double>(sizes_.head_dim_v) / 8.0) + 1.0) *
                            0x1p-23 * terms.dp_magnitude[i];
    const double difference_error =
        dp_error + errors.delta +
        kFloatRounding *
            (std::fabs(terms.dp[i]) + std::fabs(terms.delta) + dp_error + errors.delta);
    // slope = 1 − tanh², and |d slope / d score| <= 2 / cap; two roundings near 1.
    const double slope_error =
        parameters_.softcap == 0.0
            ? 0.0
            : 2.0 * errors.score / parameters_.softcap + 2.0 * kFloatRounding;
    const double relative = p * slope * difference * (growth - 1.0);
    const double absolute =
        p * growth * ((slope + slope_error) * difference_error + slope_error * difference);
    // A tiny P or dS rounds to a multiple of the smallest subnormal; the scale may come before or
    // after.
    const double tiny = underflow(dtype_) * (slope * (difference + difference_error) + 1.0);
    return scale * (relative + absolute + tiny) + underflow(dtype_);
  }

  // `tensor`[offset + c] is a sum; one of its terms is term · factors[c].
  static void add(const Term& term, std::span<const float> factors, ExpectedTensor& tensor,
                  size_t offset) {
    for (size_t c = 0; c < factors.size(); ++c) {
      const double factor = std::fabs(double{factors[c]});
      tensor.magnitude[offset + c] += term.value * factor;
      tensor.bound[offset + c] += term.error * factor;
      tensor.typical[offset + c] += term.usual * factor * term.usual * factor;
    }
  }

  static void mark(ExpectedTensor& tensor, size_t offset, size_t count) {
    std::fill_n(tensor.uncertain.begin() + static_cast<ptrdiff_t>(offset), count, uint8_t{1});
  }

  // The sum itself, the scale (two roundings in fp32) and the result's rounding.
  void finish(ExpectedTensor& tensor, double terms) const {
    const double sum_error = matrix_sum_error(terms) + 2.0 * kFloatRounding;
    for (size_t i = 0; i < tensor.bound.size(); ++i) {
      const double before = tensor.bound[i] + sum_error * (tensor.magnitude[i] + tensor.bound[i]);
      tensor.bound[i] = before + 0.5 * epsilon(dtype_) * (std::fabs(tensor.value[i]) + before) +
                        underflow(dtype_);
      tensor.typical[i] = std::sqrt(tensor.typical[i]);
    }
  }

  const Problem& problem_;
  const Sizes& sizes_;
  const BackwardInputs& inputs_;
  const Dtype dtype_;
  const Forward& forward_;
  ExpectedGradients& expected_;
  const ScoreParameters parameters_;
};

}  // namespace

Result<ExpectedGradients> expected_gradients(const Problem& problem, const Sizes& sizes,
                                             const BackwardInputs& inputs, Dtype dtype) {
  if (!inputs.out.empty() || !inputs.lse.empty()) {
    return make_error(ErrorCode::kUnsupportedProblem,
                      "gradients of a part of the keys have no error bound");
  }
  TW_ASSIGN(const Forward forward, attention_forward(problem, sizes, inputs.forward));
  TW_ASSIGN(Gradients exact, attention_backward(problem, sizes, inputs));
  TW_ASSIGN(PlainGradients plain, attention_backward_same_precision(problem, sizes, inputs, dtype));
  TW_ASSIGN(const HeadVisibilities visible,
            head_visibilities(problem, sizes, inputs.forward.masks));
  ExpectedGradients expected{expected_tensor(std::move(exact.dq), std::move(plain.dq)),
                             expected_tensor(std::move(exact.dk), std::move(plain.dk)),
                             expected_tensor(std::move(exact.dv), std::move(plain.dv))};
  Bounds bounds(problem, sizes, inputs, dtype, forward, expected);
  for_each_row_by_key_head(
      sizes, [&](const RowIndex& row) { bounds.add_row(visible.of(row.batch, row.head), row); });
  bounds.finish();
  return expected;
}

}  // namespace tilewright::reference
