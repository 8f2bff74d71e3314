// The host side of the kernel family backward_sm80 (templates/attention/backward_sm80.cuh): which
// problems it takes, with which configs, and how a config is launched. What each function owes
// stands at generator/family.h.
#pragma once

#include <string>
#include <vector>

#include "core/arch.h"
#include "generator/family.h"
#include "generator/launch.h"
#include "templates/attention/config/backward_sm80.h"
#include "tilewright/problem.h"

namespace tilewright {

struct BackwardSm80 {
  using Config = attention::BackwardSm80Config;
  using Params = attention::BackwardParams;
  static constexpr const char* kTemplatePath = "attention/backward_sm80.cuh";
  static constexpr const char* kConfigType = "BackwardSm80Config";
  static constexpr const char* kParamsType = "BackwardParams";
  // Index of each kernel among entries().
  enum Entry : int { kPreprocess, kDkdv, kDq };

  static constexpr bool takes(Pass pass) { return pass == Pass::kBackward; }
  static std::vector<std::string> refusals(const Problem& problem, const Arch& arch);
  static std::vector<Config> candidates(const Problem& problem, const Arch& arch);
  static Config default_config(const Problem& problem, const Arch& arch);
  static std::vector<EntryPoint> entries(const Config& config);
  static Result<FamilyLaunch> plan(const Problem& problem, const Config& config, const Arch& arch,
                                   const Shape& shape);
  static void bind(const BoundTensors& tensors, Params& params);
};

}  // namespace tilewright
