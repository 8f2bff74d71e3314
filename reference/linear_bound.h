// How far a linear-attention kernel's out and state may lie from the fp64 reference: derived by
// counting roundings, as error_bound.h does for softmax attention.
#pragma once

#include "reference/comparison.h"
#include "reference/linear_attention.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::reference {

struct ExpectedLinear {
  ExpectedTensor out;                // compare() as the kernel's type
  ExpectedTensor state, normalizer;  // compare() as fp32, which the kernel holds them in
};

// What compare() needs. The bounds hold for kernels in any of the three forms that hold features,
// weights (or the state, where it is multiplied with queries) in `dtype` or wider, sum in fp32, and
// carry the state in fp32.
Result<ExpectedLinear> expected_linear(const Problem& problem, const Sizes& sizes,
                                       const LinearInputs& inputs, Dtype dtype);

}  // namespace tilewright::reference
