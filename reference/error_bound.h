// The one table of tolerances: how far a kernel's result may lie from the fp64 reference. Derived
// by counting roundings; the command line and the tests both use it.
#pragma once

#include <cstdint>
#include <span>

#include "reference/attention.h"
#include "reference/comparison.h"
#include "tilewright/problem.h"

namespace tilewright::reference {

// Per element |o - o_ref| <= c eps sum p|v| + score term + floor (the terms are explained in the
// .cpp), and in max norm at most twice the plain computation's error (or half an ulp of the largest
// output: a plain computation of few elements may be right by luck) plus floor. NaN never passes,
// and nothing passes where the reference itself, or the plain computation, is not finite.
Comparison compare_out(const Problem& problem, const Sizes& sizes, Dtype dtype,
                       std::span<const float> out, const Forward& reference,
                       std::span<const float> same_precision);

// |lse - lse_ref| within its own absolute bound; the -inf of rows without a visible key must match
// exactly. Nothing passes where the reference is NaN or infinite otherwise.
Comparison compare_lse(const Problem& problem, const Sizes& sizes, std::span<const float> lse,
                       const Forward& reference);

// --- The parts, for bounds of what is computed from out and lse. ---

// Absolute error of a score in fp32, for a row of this magnitude and range (reference::Forward).
double score_error(const Problem& problem, const Sizes& sizes, double magnitude, double range);

struct OutBound {
  double bound;
  double floor;
  bool capped;  // the bound is the most that convex combinations of the values can differ
};

// Of element `i` of out, which is in row `row` of lse.
OutBound out_bound(const Problem& problem, const Sizes& sizes, Dtype dtype,
                   const Forward& reference, size_t i, size_t row);

// Of row `row` of lse, which has a visible key.
double lse_bound(const Problem& problem, const Sizes& sizes, const Forward& reference, size_t row);

}  // namespace tilewright::reference
