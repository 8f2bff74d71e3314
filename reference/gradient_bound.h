// How far a kernel's dQ, dK and dV may lie from the fp64 reference: derived by counting roundings,
// as error_bound.h does for the forward.
#pragma once

#include "reference/backward.h"
#include "reference/comparison.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::reference {

struct ExpectedGradients {
  ExpectedTensor dq, dk, dv;
};

// What compare() needs for each gradient. The bounds hold for kernels that are given out (rounded
// to `dtype`) and lse (fp32) of a forward that obeys its own bounds; that hold P and dS in `dtype`
// or wider, and sum in fp32. Part-wise inputs (BackwardInputs::out, lse) have no bounds:
// kUnsupportedProblem.
Result<ExpectedGradients> expected_gradients(const Problem& problem, const Sizes& sizes,
                                             const BackwardInputs& inputs, Dtype dtype);

}  // namespace tilewright::reference
