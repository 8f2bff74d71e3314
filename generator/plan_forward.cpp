#include "generator/plan_forward.h"

#include <variant>

#include "generator/forward_sm80.h"

namespace tilewright {
namespace {

Result<ForwardLaunch> plan_family(const Problem& problem,
                                  const attention::ForwardSm80Config& config, const Arch& arch,
                                  const Shape& shape) {
  return forward_sm80::plan(problem, config, arch, shape);
}

}  // namespace

Result<ForwardLaunch> plan_forward(const Problem& problem, const AnyConfig& config,
                                   const Arch& arch, const Shape& shape) {
  return std::visit(
      [&](const auto& family_config) { return plan_family(problem, family_config, arch, shape); },
      config);
}

}  // namespace tilewright
