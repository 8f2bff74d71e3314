// The tensors of a launch: what is demanded of them, and whether those given comply.
#pragma once

#include <vector>

#include "generator/launch.h"
#include "tilewright/kernel.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright {

// The demands on the tensors of a complete shape.
std::vector<TensorRequirement> tensor_requirements(const Problem& problem, const Shape& shape);

// Checks every tensor, and the workspace and schedule that the launch needs, and gives pointers and
// strides. kInvalidArgument names tensor and value; several faults become its reasons. Allocates
// only where it fails.
Result<BoundTensors> check_tensors(const Problem& problem, const Shape& shape,
                                   const LaunchTensors& tensors, const FamilyLaunch& launch);

}  // namespace tilewright
