// The tensors of a forward launch: what is demanded of them, and whether those given comply.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "templates/attention/params.h"
#include "tilewright/kernel.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright {

// The demands on q, k, v, out and lse of a complete shape.
std::vector<TensorRequirement> forward_requirements(const Problem& problem, const Shape& shape);

// Checks every tensor and writes pointers and strides into `params`. kInvalidArgument names tensor
// and value; several faults become its reasons. Allocates only where it fails.
Status bind_forward_tensors(const Problem& problem, const Shape& shape,
                            const LaunchTensors& tensors, attention::ForwardParams& params);

}  // namespace tilewright
