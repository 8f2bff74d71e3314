#include "generator/linear_step.h"

#include "core/any_config.h"
#include "core/check.h"
#include "generator/forward_problem.h"
#include "generator/launch_size.h"
#include "generator/linear_problem.h"
#include "generator/refusals.h"

namespace tilewright {
namespace {

using Config = LinearStep::Config;

enum Entry : int { kNormalizer, kStep };

}  // namespace

std::vector<std::string> LinearStep::refusals(const Problem& problem, const Arch& arch) {
  std::vector<std::string> reasons = common_refusals(
      Config::family(), NeededArch::kSm80OrLater, problem, arch, unusual_linear_features(problem));
  for (const auto& [name, length] :
       {std::pair("seqlen_q", problem.seqlen_q), std::pair("seqlen_k", problem.seqlen_k)}) {
    if (length.value_or(1) == 1) continue;
    reasons.push_back(fmt::format("{}={}, a step takes 1", name, *length));
  }
  return reasons;
}

std::vector<Config> LinearStep::candidates(const Problem& problem, const Arch&) {
  std::vector<Config> configs;
  for (const int num_warps : {2, 4, 8}) {
    configs.push_back(linear_config<Config>(problem));
    configs.back().num_warps = num_warps;
  }
  return configs;
}

Config LinearStep::default_config(const Problem& problem, const Arch&) {
  return linear_config<Config>(problem);
}

// Without a normaliser the first of the two is never launched.
std::vector<EntryPoint> LinearStep::entries(const Config&) {
  return {{.name = "tw_linear_step_normalizer", .function = "linear_step_normalizer_cta"},
          {.name = "tw_linear_step", .function = "linear_step_cta"}};
}

Result<FamilyLaunch> LinearStep::plan(const Problem& problem, const Config& config, const Arch&,
                                      const Shape& shape) {
  for (const auto& [name, length] :
       {std::pair("seqlen_q", shape.seqlen_q), std::pair("seqlen_k", shape.seqlen_k)}) {
    if (length == 1) continue;
    return make_error(ErrorCode::kUnsupportedProblem, "{}={}, but a step takes 1", name, length);
  }
  FamilyLaunch launch;
  if (shape.batch == 0 || shape.num_heads_q == 0) return launch;
  const int64_t heads_kv = saturating_product(shape.batch, shape.num_heads_kv);
  const int64_t blocks = saturating_product(heads_kv, ceil_div(config.head_dim_v, 32));
  TW_TRY(check_grid(blocks, shape));
  launch.params = linear_params(problem, shape);
  const Dim3 block = along_x(config.num_threads());
  if (config.normalized()) {
    launch.add_step(kNormalizer, {.grid = along_x(heads_kv), .block = block});
  }
  launch.add_step(kStep, {.grid = along_x(blocks), .block = block});
  return launch;
}

void LinearStep::bind(const BoundTensors& tensors, Params& params) { bind_linear(tensors, params); }

}  // namespace tilewright
