// The host side of the kernel family linear_forward (templates/attention/linear_forward.cuh): which
// problems it takes, with which configs, and how a config is launched. What each function owes
// stands at generator/family.h.
#pragma once

#include <string>
#include <vector>

#include "core/arch.h"
#include "generator/family.h"
#include "generator/launch.h"
#include "templates/attention/config/linear.h"
#include "tilewright/problem.h"

namespace tilewright {

struct LinearForward {
  using Config = attention::LinearForwardConfig;
  using Params = attention::LinearParams;
  static constexpr const char* kTemplatePath = "attention/linear_forward.cuh";
  static constexpr const char* kConfigType = "LinearForwardConfig";
  static constexpr const char* kParamsType = "LinearParams";

  static constexpr bool takes(Pass pass) { return pass == Pass::kLinearForward; }
  static std::vector<std::string> refusals(const Problem& problem, const Arch& arch);
  static std::vector<Config> candidates(const Problem& problem, const Arch& arch);
  static Config default_config(const Problem& problem, const Arch& arch);
  static std::vector<EntryPoint> entries(const Config& config);
  static Result<FamilyLaunch> plan(const Problem& problem, const Config& config, const Arch& arch,
                                   const Shape& shape);
  static void bind(const BoundTensors& tensors, Params& params);
};

}  // namespace tilewright
