// The host side of the kernel family standard (templates/attention/standard.cuh): which
// problems it takes, with which configs, and how a config is launched. What each function owes
// stands at generator/family.h.
#pragma once

#include <string>
#include <vector>

#include "core/arch.h"
#include "generator/family.h"
#include "generator/launch.h"
#include "templates/attention/config/standard.h"
#include "tilewright/problem.h"

namespace tilewright {

struct Standard {
  using Config = attention::StandardConfig;
  using Params = attention::StandardParams;
  static constexpr const char* kTemplatePath = "attention/standard.cuh";
  static constexpr const char* kConfigType = "StandardConfig";
  static constexpr const char* kParamsType = "StandardParams";

  static constexpr bool takes(Pass pass) { return pass == Pass::kStandard; }
  static std::vector<std::string> refusals(const Problem& problem, const Arch& arch);
  static std::vector<Config> candidates(const Problem& problem, const Arch& arch);
  static Config default_config(const Problem& problem, const Arch& arch);
  static std::vector<EntryPoint> entries(const Config& config);
  static Result<FamilyLaunch> plan(const Problem& problem, const Config& config, const Arch& arch,
                                   const Shape& shape);
  static void bind(const BoundTensors& tensors, Params& params);
};

}  // namespace tilewright
