#include "generator/standard.h"

#include <algorithm>

#include "core/check.h"
#include "generator/bind_tensors.h"
#include "generator/forward_launch.h"
#include "generator/forward_problem.h"
#include "generator/launch_size.h"
#include "generator/refusals.h"

namespace tilewright {
namespace {

using Config = Standard::Config;

enum Entry : int { kScores, kWeights, kOutput };

Config base_config(const Problem& problem) {
  Config config = softmax_config<Config>(problem);
  config.row_range = has_row_bounds(problem);
  config.strided = problem.strided;
  return config;
}

attention::StandardParams parameters(const Problem& problem, const Config& config,
                                     const Shape& shape) {
  attention::StandardParams params = {};
  const RowInterval interval = row_interval(problem, shape.seqlen_q, shape.seqlen_k);
  params.row_left = interval.row_left;
  params.row_right = interval.row_right;
  params.num_key_tiles = static_cast<int>(ceil_div(shape.seqlen_k, config.tile_n));
  params.num_query_tiles = static_cast<int>(ceil_div(shape.seqlen_q, config.tile_m));
  params.pitch = int64_t{params.num_key_tiles} * config.tile_n;
  params.num_rows = shape.batch * shape.num_heads_q * shape.seqlen_q;
  params.num_heads_q = static_cast<int>(shape.num_heads_q);
  params.group_size = static_cast<int>(shape.num_heads_q / shape.num_heads_kv);
  params.seqlen_q = static_cast<int>(shape.seqlen_q);
  params.seqlen_k = static_cast<int>(shape.seqlen_k);
  const ScoreFactors factors = score_factors(problem, config.head_dim_qk);
  params.scale_log2 = factors.scale_log2;
  params.tanh_scale = factors.tanh_scale;
  return params;
}

}  // namespace

std::vector<std::string> Standard::refusals(const Problem& problem, const Arch& arch) {
  return common_refusals(Config::family(), NeededArch::kSm80OrLater, problem, arch,
                         unusual_features(problem));
}

// One: the baseline is not tuned. Its tiles fit every device from sm_80 on.
std::vector<Config> Standard::candidates(const Problem& problem, const Arch& arch) {
  return {default_config(problem, arch)};
}

Config Standard::default_config(const Problem& problem, const Arch& arch) {
  const Config config = base_config(problem);
  TW_CHECK(std::max(config.scores_shared_bytes(), config.output_shared_bytes()) <=
               arch.shared_bytes_per_block,
           "{} does not fit {}", to_string(AnyConfig(config)), arch.target());
  return config;
}

std::vector<EntryPoint> Standard::entries(const Config& config) {
  return {{.name = "tw_standard_scores",
           .function = "standard_scores_cta",
           .shared_bytes = config.scores_shared_bytes()},
          {.name = "tw_standard_weights", .function = "standard_weights_cta"},
          {.name = "tw_standard_output",
           .function = "standard_output_cta",
           .shared_bytes = config.output_shared_bytes()}};
}

Result<FamilyLaunch> Standard::plan(const Problem& problem, const Config& config, const Arch&,
                                    const Shape& shape) {
  TW_TRY(check_lengths(shape, Config::family()));
  FamilyLaunch launch;
  if (has_no_output(shape)) return launch;
  const int64_t pairs = saturating_product(shape.batch, shape.num_heads_q);
  const int64_t query_tiles = ceil_div(shape.seqlen_q, config.tile_m);
  const int64_t key_tiles = ceil_div(shape.seqlen_k, config.tile_n);
  const int64_t output_blocks = saturating_product(pairs, query_tiles);
  const int64_t score_blocks = saturating_product(output_blocks, key_tiles);
  const int64_t rows = saturating_product(pairs, shape.seqlen_q);
  TW_TRY(check_grid(std::max({score_blocks, output_blocks, ceil_div(rows, config.num_warps())}),
                    shape));
  const attention::StandardParams params = parameters(problem, config, shape);
  constexpr int64_t kScoreBytes = 4;
  constexpr int64_t kWeightBytes = 2;
  launch.params = params;
  launch.workspace_bytes = rows * (params.pitch * (kScoreBytes + kWeightBytes) + kScoreBytes);
  const Dim3 block = along_x(config.num_threads());
  if (score_blocks > 0) {
    launch.add_step(kScores, {.grid = along_x(score_blocks),
                              .block = block,
                              .shared_bytes = config.scores_shared_bytes()});
  }
  launch.add_step(kWeights, {.grid = along_x(ceil_div(rows, config.num_warps())), .block = block});
  launch.add_step(kOutput, {.grid = along_x(output_blocks),
                            .block = block,
                            .shared_bytes = config.output_shared_bytes()});
  return launch;
}

void Standard::bind(const BoundTensors& tensors, Params& params) {
  bind_attention(tensors, params);
  params.scores = static_cast<float*>(tensors.workspace);
  // Weights behind the scores, and sums behind those: whole tiles of 16-byte rows each.
  params.weights = params.scores + params.num_rows * params.pitch;
  params.inverse_sums = params.scores + params.num_rows * (params.pitch + params.pitch / 2);
}

}  // namespace tilewright
