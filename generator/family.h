// Family: what the house asks of every kernel family, as one table of functions. families.cpp lists
// them all; adding one is a config, parameters, a template, a host side of this form and a row.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/any_config.h"
#include "core/arch.h"
#include "generator/launch.h"
#include "generator/tensor_map.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright {

// One __global__ function of a config.
struct EntryPoint {
  std::string name;      // "tw_forward"
  std::string function;  // device template over the config: "forward_sm80_cta"
  // Threads, and blocks of an SM where the config bounds registers by them.
  std::string launch_bounds = "config().num_threads()";
  int64_t shared_bytes = 0;  // the most dynamic shared memory that a launch asks for
};

struct Family {
  std::string_view name;           // "forward_sm80"
  std::string_view template_path;  // "attention/forward_sm80.cuh"
  std::string_view config_type;    // "ForwardSm80Config"
  std::string_view params_type;    // "ForwardParams"

  bool (*takes)(Pass pass);
  // Every reason why the family does not take a problem of such a pass on this architecture.
  std::vector<std::string> (*refusals)(const Problem& problem, const Arch& arch);

  // The following take a problem that the family does not refuse.

  // Every config within the architecture's shared memory and registers, in a fixed order.
  std::vector<AnyConfig> (*candidates)(const Problem& problem, const Arch& arch);
  // What to run where nothing was tuned; one of candidates().
  AnyConfig (*default_config)(const Problem& problem, const Arch& arch);
  // The kernels of a config, in the order that FamilyStep::entry counts.
  std::vector<EntryPoint> (*entries)(const AnyConfig& config);
  // Everything of a launch that does not depend on pointers. `shape` is complete: every dim is the
  // real one (seqlens may be 0), num_heads_kv divides num_heads_q. kUnsupportedProblem where sizes
  // exceed the family's range.
  Result<FamilyLaunch> (*plan)(const Problem& problem, const AnyConfig& config, const Arch& arch,
                               const Shape& shape);
  // Writes pointers, strides and tensor maps into the launch's parameters. kInvalidArgument names a
  // tensor that a map cannot hold.
  Status (*bind)(const AnyConfig& config, const BoundTensors& tensors,
                 const TensorMapEncoder& encoder, FamilyLaunch& launch);
};

// In order of preference.
std::span<const Family> families();
const Family& family_of(const AnyConfig& config);

}  // namespace tilewright
