#include "reference/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/check.h"
#include "reference/rounding.h"

namespace tilewright::reference {

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
}  // namespace

ExpectedTensor expected_tensor(std::vector<double> value, std::vector<float> plain) {
  ExpectedTensor tensor;
  tensor.magnitude.assign(value.size(), 0.0);
  tensor.bound.assign(value.size(), 0.0);
  tensor.typical.assign(value.size(), 0.0);
  tensor.uncertain.assign(value.size(), 0);
  tensor.value = std::move(value);
  tensor.plain = std::move(plain);
  return tensor;
}

void note_element(double error, double bound, size_t index, Comparison& comparison) {
  if (!std::isfinite(error)) error = kInfinity;
  const double ratio = error == 0.0 ? 0.0 : error / bound;
  comparison.max_error = std::max(comparison.max_error, error);
  if (ratio > comparison.worst_ratio || index == 0) {
    comparison.worst_ratio = std::max(ratio, comparison.worst_ratio);
    comparison.bound_there = bound;
    comparison.worst_index = static_cast<int64_t>(index);
  }
}

void note_not_finite(std::string_view what, std::string_view why, size_t index,
                     Comparison& comparison) {
  comparison.comparable = false;
  comparison.max_error = kInfinity;
  comparison.worst_ratio = kInfinity;
  if (!comparison.detail.empty()) return;
  comparison.bound_there = 0.0;
  comparison.worst_index = static_cast<int64_t>(index);
  comparison.detail = fmt::format("{} is not finite at element {}: {}", what, index, why);
}

Comparison compare(std::span<const float> actual, const ExpectedTensor& expected, Dtype dtype) {
  const size_t count = expected.value.size();
  TW_CHECK(actual.size() == count && expected.bound.size() == count &&
               expected.magnitude.size() == count && expected.typical.size() == count &&
               expected.plain.size() == count && expected.uncertain.size() == count,
           "the result has {} elements, the reference {}", actual.size(), count);
  Comparison comparison;
  double largest = 0.0, typical = 0.0, sum = 0.0;
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(expected.value[i])) {
      note_not_finite("the reference", "the input holds NaN or infinity", i, comparison);
      continue;
    }
    if (!std::isfinite(expected.bound[i])) {
      note_not_finite("the bound", "intermediate values are too large", i, comparison);
      continue;
    }
    if (!std::isfinite(expected.plain[i])) {
      note_not_finite(kPlainComputation, kTooLarge, i, comparison);
      continue;
    }
    if (expected.uncertain[i] != 0 &&
        expected.bound[i] > expected.magnitude[i] + underflow(dtype)) {
      ++comparison.capped_elements;
    }
    largest = std::max(largest, std::fabs(expected.value[i]));
    typical = std::max(typical, expected.typical[i]);
    const double difference = double{actual[i]} - expected.value[i];
    note_element(std::fabs(difference), expected.bound[i], i, comparison);
    sum += difference;
    comparison.plain_max_error = std::max(comparison.plain_max_error,
                                          std::fabs(double{expected.plain[i]} - expected.value[i]));
  }
  comparison.mean_error = count == 0 ? 0.0 : sum / static_cast<double>(count);
  comparison.max_error_limit = 2.0 * std::max(comparison.plain_max_error, typical) +
                               0.5 * epsilon(dtype) * largest + underflow(dtype);
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

}  // namespace tilewright::reference
