#include "generator/forward_sm90.h"

#include <algorithm>
#include <array>

#include "core/any_config.h"
#include "core/check.h"
#include "generator/forward_launch.h"
#include "generator/forward_problem.h"
#include "generator/refusals.h"
#include "generator/tensor_map.h"

namespace tilewright {
namespace {

using Config = ForwardSm90::Config;

// The config's fields that the problem decides.
Config base_config(const Problem& problem) {
  Config config = softmax_config<Config>(problem);
  config.row_range = has_row_bounds(problem);
  config.varlen = problem.varlen;
  return config;
}

Config with_shape(Config config, int consumer_warpgroups, int tile_n, int stages) {
  config.consumer_warpgroups = consumer_warpgroups;
  config.tile_n = tile_n;
  config.stages = stages;
  return config;
}

// Registers of a consumer thread: the accumulators of S and O, P as an operand, and the rest:
// row statistics, addresses, loop state. ptxas 13.0 spilled in none of the sampled configs with 16
// for the rest; 8 more are left for other versions.
int registers_needed(const Config& config) {
  constexpr int kOther = 24;
  return config.tile_n / 2 + config.head_dim_v / 2 + config.tile_n / 4 + kOther;
}

bool fits(const Config& config, const Arch& arch) {
  return config.shared_bytes() <= arch.shared_bytes_per_block &&
         registers_needed(config) <= config.consumer_registers();
}

// The most keys a step that two stages and the accumulators leave room for.
int preferred_tile_n(const Config& config) {
  const int head_dim = std::max(config.head_dim_qk, config.head_dim_v);
  if (head_dim <= 64) return 128;
  if (head_dim <= 96) return 96;
  if (head_dim <= 128) return 128;
  if (head_dim <= 192) return 96;
  return 80;
}

// Three consumers where their 160 registers hold the accumulators; no more than there are rows for.
int preferred_consumers(const Config& config, int64_t seqlen_q) {
  const int head_dim = std::max(config.head_dim_qk, config.head_dim_v);
  const int most = head_dim <= 96 ? 3 : 2;
  return static_cast<int>(std::clamp<int64_t>((seqlen_q + 63) / 64, 1, most));
}

enum : int { kSmallTileN = 64 };

// In order of preference; all of them candidates.
std::optional<Config> find_default(const Problem& problem, const Arch& arch) {
  const Config base = base_config(problem);
  const int consumers = preferred_consumers(base, problem.seqlen_q.value_or(4096));
  for (const Config& config :
       {with_shape(base, consumers, preferred_tile_n(base), 2),
        with_shape(base, consumers, kSmallTileN, 2), with_shape(base, 1, kSmallTileN, 2)}) {
    if (fits(config, arch)) return config;
  }
  return {};
}

}  // namespace

std::vector<std::string> ForwardSm90::refusals(const Problem& problem, const Arch& arch) {
  Problem rest = problem;
  rest.varlen = false;
  std::vector<std::string> reasons =
      common_refusals(Config::family(), NeededArch::kSm90a, problem, arch, unusual_features(rest));
  check_packed_layout(problem, reasons);
  if (problem.strided) reasons.push_back("strided: TMA needs 16-byte rows");
  if (reasons.empty() && !find_default(problem, arch)) reasons.push_back(no_config_fits(arch));
  return reasons;
}

std::vector<Config> ForwardSm90::candidates(const Problem& problem, const Arch& arch) {
  std::vector<Config> configs;
  const Config base = base_config(problem);
  for (const int consumers : {1, 2, 3}) {
    for (const int tile_n : {preferred_tile_n(base), +kSmallTileN}) {
      for (const int stages : {2, 3}) {
        const Config config = with_shape(base, consumers, tile_n, stages);
        if (fits(config, arch)) configs.push_back(config);
      }
    }
  }
  return configs;
}

Config ForwardSm90::default_config(const Problem& problem, const Arch& arch) {
  return default_of_accepted(find_default(problem, arch));
}

std::vector<EntryPoint> ForwardSm90::entries(const Config& config) {
  return {{.name = "tw_forward",
           .function = "forward_sm90_cta",
           .launch_bounds = "config().num_threads(), 1",
           .shared_bytes = config.shared_bytes()}};
}

Result<FamilyLaunch> ForwardSm90::plan(const Problem& problem, const Config& config,
                                       const Arch& arch, const Shape& shape) {
  TW_TRY(check_lengths(shape, Config::family()));
  FamilyLaunch launch;
  if (has_no_output(shape)) return launch;
  Params params = {};
  TW_ASSIGN(params.forward,
            forward_params(problem, {config.tile_m(), config.head_dim_qk, config.head_dim_v}, arch,
                           shape));
  set_row_bounds(problem, shape, config.varlen, params.forward);
  launch.params = params;
  launch.add_step(0, {.grid = forward_grid(params.forward),
                      .block = {.x = static_cast<uint32_t>(config.num_threads())},
                      .shared_bytes = config.shared_bytes()});
  return launch;
}

Status ForwardSm90::bind(const Config& config, const BoundTensors& tensors,
                         const TensorMapEncoder& encoder, Params& params) {
  bind_forward(tensors, params.forward);
  const attention::ForwardParams& forward = params.forward;
  // No output: nothing is launched. No keys, or no packed query: nothing is loaded, and no map has
  // an extent of 0.
  if (forward.num_batch_heads == 0 || forward.seqlen_k == 0) return {};
  const int query_rows = config.varlen ? forward.total_q : forward.seqlen_q;
  const int key_rows = config.varlen ? forward.total_k : forward.seqlen_k;
  if (query_rows == 0 || key_rows == 0) return {};
  const int batch = config.varlen ? 1 : forward.num_batch_heads / forward.num_heads_q;
  const int num_heads_kv = forward.num_heads_q / forward.group_size;
  const auto map = [&](TensorId id, std::string_view name, int head_dim, int rows, int heads,
                       int box_rows) {
    return map_rows(encoder,
                    {.name = name,
                     .dtype = config.dtype,
                     .head_dim = head_dim,
                     .rows = rows,
                     .heads = heads,
                     .batch = batch,
                     .box_rows = box_rows},
                    tensors[id]);
  };
  TW_ASSIGN(params.q_map, map(TensorId::kQ, "q", config.head_dim_qk, query_rows,
                              forward.num_heads_q, config.tile_m()));
  TW_ASSIGN(params.k_map,
            map(TensorId::kK, "k", config.head_dim_qk, key_rows, num_heads_kv, config.tile_n));
  TW_ASSIGN(params.v_map,
            map(TensorId::kV, "v", config.head_dim_v, key_rows, num_heads_kv, config.tile_n));
  return {};
}

}  // namespace tilewright
