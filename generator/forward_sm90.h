// The host side of the kernel family forward_sm90 (templates/attention/forward_sm90.cuh): which
// problems it takes, with which configs, and how a config is launched. What each function owes
// stands at generator/family.h.
#pragma once

#include <string>
#include <vector>

#include "core/arch.h"
#include "generator/family.h"
#include "generator/launch.h"
#include "templates/attention/config/forward_sm90.h"
#include "tilewright/problem.h"

namespace tilewright {

struct ForwardSm90 {
  using Config = attention::ForwardSm90Config;
  using Params = attention::ForwardSm90Params;
  static constexpr const char* kTemplatePath = "attention/forward_sm90.cuh";
  static constexpr const char* kConfigType = "ForwardSm90Config";
  static constexpr const char* kParamsType = "ForwardSm90Params";

  static constexpr bool takes(Pass pass) { return pass == Pass::kForward; }
  static std::vector<std::string> refusals(const Problem& problem, const Arch& arch);
  static std::vector<Config> candidates(const Problem& problem, const Arch& arch);
  static Config default_config(const Problem& problem, const Arch& arch);
  static std::vector<EntryPoint> entries(const Config& config);
  static Result<FamilyLaunch> plan(const Problem& problem, const Config& config, const Arch& arch,
                                   const Shape& shape);
  static Status bind(const Config& config, const BoundTensors& tensors,
                     const TensorMapEncoder& encoder, Params& params);
};

}  // namespace tilewright
