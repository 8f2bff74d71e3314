// The one table of tolerances: how far a kernel's result may lie from the fp64 reference. Derived
// by counting roundings; the command line and the tests both use it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "reference/attention.h"
#include "tilewright/problem.h"

namespace tilewright::reference {

// The outcome of comparing one result with its reference.
struct Comparison {
  bool ok = false;
  double max_error = 0;         // largest |o - o_ref|; infinite if any value is NaN
  double max_error_limit = 0;   // what max_error may not exceed, whichever element it is at
  double bound_there = 0;       // the element bound at the place of the worst ratio
  double worst_ratio = 0;       // largest |o - o_ref| / bound; at most 1 if ok
  double plain_max_error = 0;   // of the plain same-precision computation
  double mean_error = 0;        // mean of o - o_ref: bias
  int64_t worst_index = 0;      // flat index of the worst ratio
  int64_t capped_elements = 0;  // where the bound proves nothing: scores too large for fp32
  std::string detail;           // one sentence when not ok
};

// Per element |o - o_ref| <= c eps sum p|v| + score term + floor (the terms are explained in the
// .cpp), and in max norm at most twice the plain computation's error plus floor. NaN never passes,
// and nothing passes where the reference itself, or the plain computation, is not finite.
Comparison compare_out(const Problem& problem, const Sizes& sizes, Dtype dtype,
                       std::span<const float> out, const Forward& reference,
                       std::span<const float> same_precision);

// |lse - lse_ref| within its own absolute bound; the -inf of rows without a visible key must match
// exactly. Nothing passes where the reference is NaN or infinite otherwise.
Comparison compare_lse(const Problem& problem, const Sizes& sizes, std::span<const float> lse,
                       const Forward& reference);

}  // namespace tilewright::reference
