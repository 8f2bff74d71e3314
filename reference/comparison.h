// Comparing a kernel's tensor with its fp64 reference, element by element.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/problem.h"

namespace tilewright::reference {

// The outcome of comparing one result with its reference.
struct Comparison {
  bool ok = false;
  // False, and ok too, where reference, bound or plain computation is not finite somewhere: nothing
  // can be said of the kernel, right or wrong.
  bool comparable = true;
  double max_error = 0;         // largest |o - o_ref|; infinite if any value is NaN
  double max_error_limit = 0;   // what max_error may not exceed, whichever element it is at
  double bound_there = 0;       // the element bound at the place of the worst ratio
  double worst_ratio = 0;       // largest |o - o_ref| / bound; at most 1 if ok
  double plain_max_error = 0;   // of the plain same-precision computation
  double mean_error = 0;        // mean of o - o_ref: bias
  int64_t worst_index = 0;      // flat index of the worst ratio
  int64_t capped_elements = 0;  // where the bound proves nothing: numbers too large for fp32
  std::string detail;           // one sentence when not ok
};

// A tensor that a kernel must produce: what is true, how far off each element may be, and what the
// plain same-precision computation makes of it. All of one shape.
struct ExpectedTensor {
  std::vector<double> value;
  std::vector<double> magnitude;  // the sum that makes the value, over absolute values of its terms
  std::vector<double> bound;
  // What the roundings to the kernel's type usually cost: their errors, added in quadrature.
  std::vector<double> typical;
  std::vector<float> plain;
  // Not 0 where errors in fp32 may move a weight by its own size, since the numbers that it comes
  // from are so large.
  std::vector<uint8_t> uncertain;
};

// All sums zero: bounds are added up term by term.
ExpectedTensor expected_tensor(std::vector<double> value, std::vector<float> plain);

// Per element |actual - value| <= bound, and in max norm at most twice the plain computation's
// error (or twice the typical one: a plain computation of few elements may be right by luck) plus
// what rounding the largest value to `dtype` alone may cost. NaN never passes, and nothing passes
// where value, bound or plain is not finite. An element of weights that are anybody's guess, with a
// bound over its magnitude, is counted as capped: the bound proves nothing there. (A bound may well
// be over a magnitude that is small because terms vanish: that of dQ where a row sees one key.)
Comparison compare(std::span<const float> actual, const ExpectedTensor& expected, Dtype dtype);

// --- For comparisons with rules of their own. ---

// Adds one element's |error| and bound to max_error, worst_ratio, worst_index and bound_there.
void note_element(double error, double bound, size_t index, Comparison& comparison);

// What `plain` is, and what ails it where it is not finite.
inline constexpr std::string_view kPlainComputation = "plain attention of the same precision";
inline constexpr std::string_view kTooLarge =
    "its numbers are too large for fp32, so there is nothing to hold the kernel against";

// Nothing can be said of an element without a finite reference and bound: the comparison fails.
// The first such element is the one that `detail` names.
void note_not_finite(std::string_view what, std::string_view why, size_t index,
                     Comparison& comparison);

}  // namespace tilewright::reference
