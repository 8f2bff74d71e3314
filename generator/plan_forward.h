// The host side of a forward launch: grid, shared memory and every kernel parameter that does not
// depend on pointers. Pure.
#pragma once

#include <cstdint>

#include "core/any_config.h"
#include "core/arch.h"
#include "templates/attention/params.h"
#include "tilewright/kernel.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright {

struct LaunchGeometry {
  Dim3 grid, block, cluster;
  int64_t shared_bytes = 0;  // dynamic
  bool operator==(const LaunchGeometry&) const = default;
};

struct ForwardLaunch {
  LaunchGeometry geometry;
  // Pointers are null and strides 0: the caller fills them in for each launch.
  attention::ForwardParams params = {};
  bool empty = false;  // no output element: nothing to launch
};

// `shape` is complete: every dim is the real one (seqlens may be 0), num_heads_kv divides
// num_heads_q. kUnsupportedProblem where the lengths exceed the kernel's range.
Result<ForwardLaunch> plan_forward(const Problem& problem, const AnyConfig& config,
                                   const Arch& arch, const Shape& shape);

}  // namespace tilewright
