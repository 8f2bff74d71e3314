// The host side of the kernel family forward_sm80 (templates/attention/forward_sm80.cuh): which
// problems it takes, with which configs, and how a config is launched.
#pragma once

#include <string>
#include <vector>

#include "core/arch.h"
#include "generator/plan_forward.h"
#include "templates/attention/config.h"
#include "tilewright/problem.h"

namespace tilewright::forward_sm80 {

inline constexpr const char* kName = "forward_sm80";
inline constexpr const char* kTemplatePath = "attention/forward_sm80.cuh";

// Every reason why the family does not take the problem on this architecture.
std::vector<std::string> refusals(const Problem& problem, const Arch& arch);

// The following take a problem that the family does not refuse.

// Every config within the architecture's shared memory and registers, in a fixed order.
std::vector<attention::ForwardSm80Config> candidates(const Problem& problem, const Arch& arch);
// What to run where nothing was tuned; one of candidates().
attention::ForwardSm80Config default_config(const Problem& problem, const Arch& arch);

// Grid, parameters and shared memory of one launch.
Result<ForwardLaunch> plan(const Problem& problem, const attention::ForwardSm80Config& config,
                           const Arch& arch, const Shape& shape);

}  // namespace tilewright::forward_sm80
