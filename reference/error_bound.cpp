#include "reference/error_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "core/check.h"
#include "reference/rounding.h"

namespace tilewright::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Relative error of the row sum: each thread of a quad adds a quarter of the keys in fp32, then
// two more additions; rescaling multiplies once per key tile of at least 16 keys.
double row_sum_error(const Sizes& sizes) {
  return (static_cast<double>(sizes.seqlen_k) / 4.0 + static_cast<double>(sizes.seqlen_k) / 16.0 +
          4.0) *
         0x1p-24;
}

constexpr std::string_view kReference = "the reference";
constexpr std::string_view kBadInput = "the input holds NaN or infinity";

// Half a unit in the last place of a value, below which no result can be rounded.
double half_ulp(double value, Dtype dtype) {
  return value == 0.0 ? 0.0 : std::ldexp(0.5 * epsilon(dtype), std::ilogb(value));
}

}  // namespace

// Absolute error of one score in fp32, and so the relative error of one exponential:
//  - the products are exact in fp32's wider sum; each of the head_dim/8 truncated partial sums
//    (MMA-Sim: 24 bits, truncated) loses at most 2^-23 of the magnitude so far;
//  - softcap: tanh within 4 ulp of 1, or of its value where that is below 0.15 (so that a cap far
//    above all scores costs nothing);
//  - scaling and the subtraction of the maximum round an argument of
//    at most magnitude + range, and ex2.approx adds 2 ulp.
double score_error(const Problem& problem, const Sizes& sizes, double magnitude, double range) {
  const double partial_sums = std::ceil(static_cast<double>(sizes.head_dim_qk) / 8.0) + 1.0;
  const double cap = problem.softcap.value_or(0.0);
  const double softcap_error = 4.0 * 0x1p-23 * (magnitude < 0.14 * cap ? magnitude : cap);
  return partial_sums * 0x1p-23 * magnitude + 3.0 * 0x1p-24 * (magnitude + range) + softcap_error +
         0x1p-22;
}

OutBound out_bound(const Problem& problem, const Sizes& sizes, Dtype dtype,
                   const Forward& reference, size_t i, size_t flat_row) {
  // P is rounded to `dtype` once (eps/2), O once (eps/2); the fp32 sums of P V lose 2^-23 per
  // 8 keys in the worst case, in practice the sqrt of it: 2^-8 of eps pays for it.
  const double roundings =
      (1.0 + 0x1p-8) * epsilon(dtype) + std::sqrt(static_cast<double>(sizes.seqlen_k)) * 0x1p-22;
  // An error delta in each score changes a normalised weight by at most a factor e^(2 delta).
  const double delta = score_error(problem, sizes, reference.score_magnitude[flat_row],
                                   reference.score_range[flat_row]) +
                       row_sum_error(sizes);
  const double floor = underflow(dtype) * (1.0 + reference.value_mass[i]);
  const double bound = (roundings + std::expm1(2.0 * delta)) * reference.out_magnitude[i] + floor;
  // Both results are convex combinations of the values, whatever the weights: no two of them lie
  // further apart than this, so a larger bound would let anything pass.
  const double cap = (2.0 + roundings) * reference.value_max[i] + floor;
  if (!std::isfinite(delta) || !std::isfinite(cap)) return {kInfinity, floor, false};
  if (!(bound <= cap)) return {cap, floor, true};  // also NaN: e^(2 delta) overflows
  return {bound, floor, false};
}

double lse_bound(const Problem& problem, const Sizes& sizes, const Forward& reference, size_t row) {
  // Scores and row sum as for out; the logarithm and the last addition round a number of about
  // |lse| in fp32, lg2.approx adds 2^-22.
  return score_error(problem, sizes, reference.score_magnitude[row], reference.score_range[row]) +
         row_sum_error(sizes) + 4.0 * 0x1p-24 * std::fabs(reference.lse[row]) + 0x1p-21;
}

Comparison compare_out(const Problem& problem, const Sizes& sizes, Dtype dtype,
                       std::span<const float> out, const Forward& reference,
                       std::span<const float> same_precision) {
  TW_CHECK(out.size() == reference.out.size() && same_precision.size() == out.size(),
           "out has {} elements, the reference {}", out.size(), reference.out.size());
  Comparison comparison;
  double floor_max = 0.0, largest = 0.0, sum = 0.0;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t column = static_cast<size_t>(sizes.head_dim_v);
    const size_t heads = static_cast<size_t>(sizes.num_heads_q);
    const size_t rows = static_cast<size_t>(sizes.seqlen_q);
    const size_t head = i / column % heads, row = i / column / heads % rows;
    const size_t batch = i / column / heads / rows;
    const size_t flat_row = (batch * heads + head) * rows + row;
    const auto [bound, floor, capped] = out_bound(problem, sizes, dtype, reference, i, flat_row);
    if (!std::isfinite(reference.out[i]) || !std::isfinite(bound)) {
      note_not_finite(kReference, kBadInput, i, comparison);
      continue;
    }
    if (!std::isfinite(same_precision[i])) {
      note_not_finite(kPlainComputation, kTooLarge, i, comparison);
      continue;
    }
    if (capped) ++comparison.capped_elements;
    floor_max = std::max(floor_max, floor);
    largest = std::max(largest, std::fabs(reference.out[i]));
    const double difference = double{out[i]} - reference.out[i];
    note_element(std::fabs(difference), bound, i, comparison);
    sum += difference;
    comparison.plain_max_error = std::max(comparison.plain_max_error,
                                          std::fabs(double{same_precision[i]} - reference.out[i]));
  }
  comparison.mean_error = out.empty() ? 0.0 : sum / static_cast<double>(out.size());
  // A plain computation of few elements may be right by luck: the yardstick is no shorter than the
  // rounding of the largest output.
  comparison.max_error_limit =
      2.0 * std::max(comparison.plain_max_error, half_ulp(largest, dtype)) + floor_max;
  if (!comparison.detail.empty()) return comparison;
  if (!(comparison.worst_ratio <= 1.0)) {
    comparison.detail =
        fmt::format("element {} is {:.3g} times its bound {:.3g}", comparison.worst_index,
                    comparison.worst_ratio, comparison.bound_there);
  } else if (!(comparison.max_error <= comparison.max_error_limit)) {
    comparison.detail =
        fmt::format("max error {:.3g} is over the limit {:.3g} (plain computation: {:.3g})",
                    comparison.max_error, comparison.max_error_limit, comparison.plain_max_error);
  }
  comparison.ok = comparison.detail.empty();
  return comparison;
}

Comparison compare_lse(const Problem& problem, const Sizes& sizes, std::span<const float> lse,
                       const Forward& reference) {
  TW_CHECK(lse.size() == reference.lse.size(), "lse has {} elements, the reference {}", lse.size(),
           reference.lse.size());
  Comparison comparison;
  double sum = 0.0;
  for (size_t i = 0; i < lse.size(); ++i) {
    if (reference.lse[i] == -kInfinity) {  // no visible key
      if (double{lse[i]} != reference.lse[i]) note_element(kInfinity, 1.0, i, comparison);
      continue;
    }
    const double bound = lse_bound(problem, sizes, reference, i);
    if (!std::isfinite(reference.lse[i]) || !std::isfinite(bound)) {
      note_not_finite(kReference, kBadInput, i, comparison);
      continue;
    }
    comparison.max_error_limit = std::max(comparison.max_error_limit, bound);
    const double difference = double{lse[i]} - reference.lse[i];
    note_element(std::fabs(difference), bound, i, comparison);
    sum += difference;
  }
  comparison.mean_error = lse.empty() ? 0.0 : sum / static_cast<double>(lse.size());
  comparison.ok = comparison.detail.empty() && comparison.worst_ratio <= 1.0;
  if (!comparison.ok && comparison.detail.empty()) {
    comparison.detail =
        fmt::format("lse row {} is {:.3g} times its bound {:.3g}", comparison.worst_index,
                    comparison.worst_ratio, comparison.bound_there);
  }
  return comparison;
}

}  // namespace tilewright::reference
