// The gradients of softmax attention in fp64, pair by pair; and the plain computation of them in
// the kernel's own precision, the yardstick for how much error is fair.
//
// With P the weights, slope the derivative of the softcap and D_i = <dO_i, O_i>:
//   dP = dO Vᵀ,  dS = P ∘ (dP − D) ∘ slope,  dQ = scale dS K,  dK = scale dSᵀ Q,  dV = Pᵀ dO
// where dK and dV sum over the query heads of a group. (Dao et al. 2022, appendix B.2.)
#pragma once

#include <span>
#include <vector>

#include "reference/attention.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::reference {

struct BackwardInputs {
  Inputs forward;
  std::span<const float> dout;  // as out, values already rounded to the kernel's type
  // Where these keys are only a part of those that the forward saw: its out and lse over all of
  // them, shaped as in Forward. The gradients of the parts add up to the whole. Empty: all keys.
  std::span<const double> out = {}, lse = {};
};

// Shaped as q, k and v.
struct Gradients {
  std::vector<double> dq, dk, dv;
};

// Any problem that attention_forward takes. Rows without a visible key and keys that no row sees
// get gradient 0.
Result<Gradients> attention_backward(const Problem& problem, const Sizes& sizes,
                                     const BackwardInputs& inputs);

struct PlainGradients {
  std::vector<float> dq, dk, dv;
};

// fp32 throughout, but P (for dV), dS, the O that D is made of, and the results are rounded to
// `dtype`. `out` and `lse` of the inputs are not looked at: the plain forward's are taken.
Result<PlainGradients> attention_backward_same_precision(const Problem& problem, const Sizes& sizes,
                                                         const BackwardInputs& inputs, Dtype dtype);

}  // namespace tilewright::reference
