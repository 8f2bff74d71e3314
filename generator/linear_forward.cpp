#include "generator/linear_forward.h"

#include <algorithm>
#include <array>

#include "core/any_config.h"
#include "core/check.h"
#include "generator/forward_problem.h"
#include "generator/launch_size.h"
#include "generator/linear_problem.h"
#include "generator/refusals.h"

namespace tilewright {
namespace {

using Config = LinearForward::Config;

enum Entry : int { kStates, kScan, kOutput };

// The most columns, up to 64, that divide head_dim_v.
int default_tile_v(int head_dim_v) {
  int tile = std::min(64, head_dim_v);
  while (head_dim_v % tile != 0) tile -= 8;
  return tile;
}

Config base_config(const Problem& problem) {
  Config config = linear_config<Config>(problem);
  config.causal = is_causal(problem);
  config.strided = problem.strided;
  config.tile_v = default_tile_v(config.head_dim_v);
  return config;
}

bool fits(const Config& config, const Arch& arch) {
  return std::max(config.states_shared_bytes(), config.output_shared_bytes()) <=
         arch.shared_bytes_per_block;
}

}  // namespace

std::vector<std::string> LinearForward::refusals(const Problem& problem, const Arch& arch) {
  std::vector<std::string> reasons = common_refusals(
      Config::family(), NeededArch::kSm80OrLater, problem, arch, unusual_linear_features(problem));
  if (reasons.empty() && !fits(base_config(problem), arch)) reasons.push_back(no_config_fits(arch));
  return reasons;
}

std::vector<Config> LinearForward::candidates(const Problem& problem, const Arch& arch) {
  std::vector<Config> configs;
  const Config base = base_config(problem);
  for (const int tile_v : {base.tile_v, base.tile_v / 2}) {
    if (tile_v % 8 != 0 || tile_v == 0) continue;
    for (const int chunk : {64, 128, 256, 512}) {
      Config config = base;
      config.tile_v = tile_v;
      config.chunk = chunk;
      if (fits(config, arch)) configs.push_back(config);
    }
  }
  return configs;
}

Config LinearForward::default_config(const Problem& problem, const Arch&) {
  return base_config(problem);
}

std::vector<EntryPoint> LinearForward::entries(const Config& config) {
  return {{.name = "tw_linear_states",
           .function = "linear_states_cta",
           .shared_bytes = config.states_shared_bytes()},
          {.name = "tw_linear_scan", .function = "linear_scan_cta"},
          {.name = "tw_linear_output",
           .function = "linear_output_cta",
           .shared_bytes = config.output_shared_bytes()}};
}

Result<FamilyLaunch> LinearForward::plan(const Problem& problem, const Config& config, const Arch&,
                                         const Shape& shape) {
  TW_TRY(check_lengths(shape, Config::family()));
  FamilyLaunch launch;
  if (shape.batch == 0 || shape.num_heads_q == 0) return launch;
  Params params = linear_params(problem, shape);
  params.num_query_tiles = static_cast<int>(ceil_div(shape.seqlen_q, config.tile_m()));
  params.num_chunks = static_cast<int>(ceil_div(shape.seqlen_k, config.chunk));
  const int64_t v_tiles = config.head_dim_v / config.tile_v;
  const int64_t heads_kv = saturating_product(shape.batch, shape.num_heads_kv);
  const int64_t state_blocks = saturating_product(heads_kv, params.num_chunks * v_tiles);
  const int64_t scan_blocks =
      saturating_product(heads_kv, ceil_div(config.state_elements(), config.num_threads()));
  const int64_t output_blocks = saturating_product(
      saturating_product(shape.batch, shape.num_heads_q), params.num_query_tiles * v_tiles);
  TW_TRY(check_grid(std::max({state_blocks, scan_blocks, output_blocks}), shape));
  launch.workspace_bytes = heads_kv * (params.num_chunks + 1) * config.state_elements() * 4;
  launch.params = params;
  const Dim3 block = along_x(config.num_threads());
  if (state_blocks > 0) {
    launch.add_step(kStates, {.grid = along_x(state_blocks),
                              .block = block,
                              .shared_bytes = config.states_shared_bytes()});
  }
  launch.add_step(kScan, {.grid = along_x(scan_blocks), .block = block});
  if (output_blocks > 0) {
    launch.add_step(kOutput, {.grid = along_x(output_blocks),
                              .block = block,
                              .shared_bytes = config.output_shared_bytes()});
  }
  return launch;
}

void LinearForward::bind(const BoundTensors& tensors, Params& params) {
  bind_linear(tensors, params);
}

}  // namespace tilewright
