#include "generator/backward_sm80.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "core/any_config.h"
#include "core/check.h"
#include "generator/bind_tensors.h"
#include "generator/block_order.h"
#include "generator/forward_problem.h"
#include "generator/launch_size.h"
#include "generator/refusals.h"

namespace tilewright {
namespace {

using Config = BackwardSm80::Config;

struct DkdvShape {
  int tile_m, tile_n, warps, column_warps, stages;
};
struct DqShape {
  int tile_m, tile_n, warps, stages;
};

// Registers of a thread: accumulators live through the loop, scores and products through a step;
// then addresses, operands in flight and loop state. With this constant for these ptxas 13.0
// spilled in none of some 330 sampled configs, for sm_80, sm_86 and sm_90a.
constexpr int kOtherRegisters = 80;

int dkdv_registers(const Config& config) {
  const int row_fragments = config.dkdv_rows_per_warp() / 16;
  const int sums = (config.dkdv_columns_qk() + config.dkdv_columns_v()) / 8;
  const int scores = 2 * config.dkdv_tile_m / 8;
  return 4 * row_fragments * (sums + scores) / config.dkdv_column_warps + kOtherRegisters;
}

int dq_registers(const Config& config) {
  const int row_fragments = config.dq_rows_per_warp() / 16;
  return 4 * row_fragments * (config.depth_qk() / 8 + 2 * config.dq_tile_n / 8) + kOtherRegisters;
}

bool fits(int registers, int threads, int64_t shared_bytes, const Arch& arch) {
  const int available =
      std::min(arch.registers_per_sm / threads / 8 * 8, arch.max_registers_per_thread);
  return registers <= available && shared_bytes <= arch.shared_bytes_per_block &&
         shared_bytes + arch.shared_bytes_reserved <= arch.shared_bytes_per_sm;
}

bool dkdv_fits(const Config& config, const Arch& arch) {
  return fits(dkdv_registers(config), config.dkdv_threads(), config.dkdv_shared_bytes(), arch);
}

bool dq_fits(const Config& config, const Arch& arch) {
  return fits(dq_registers(config), config.dq_threads(), config.dq_shared_bytes(), arch);
}

// The config's fields that the problem decides.
Config base_config(const Problem& problem) {
  Config config = softmax_config<Config>(problem);
  config.row_range = has_row_bounds(problem);
  config.strided = problem.strided;
  return config;
}

Config with_shape(Config config, const DkdvShape& shape) {
  config.dkdv_tile_m = shape.tile_m;
  config.dkdv_tile_n = shape.tile_n;
  config.dkdv_warps = shape.warps;
  config.dkdv_column_warps = shape.column_warps;
  config.dkdv_stages = shape.stages;
  return config;
}

Config with_shape(Config config, const DqShape& shape) {
  config.dq_tile_m = shape.tile_m;
  config.dq_tile_n = shape.tile_n;
  config.dq_warps = shape.warps;
  config.dq_stages = shape.stages;
  return config;
}

// In order of preference; each pass on its own. Warps share keys only where the sums of 16 keys do
// not fit one warp's registers.
constexpr std::array kDkdvShapes = {
    DkdvShape{64, 64, 4, 1, 2}, DkdvShape{64, 64, 4, 1, 1}, DkdvShape{32, 64, 4, 1, 2},
    DkdvShape{32, 64, 4, 1, 1}, DkdvShape{32, 64, 8, 2, 2}, DkdvShape{32, 64, 8, 2, 1},
    DkdvShape{32, 32, 4, 2, 1},
};
constexpr std::array kDqShapes = {
    DqShape{64, 64, 4, 2}, DqShape{64, 64, 4, 1}, DqShape{64, 32, 4, 2},
    DqShape{64, 32, 4, 1}, DqShape{64, 16, 4, 1},
};

template <class Shape, class Fits>
std::optional<Config> first_fitting(const Config& base, std::span<const Shape> shapes,
                                    const Arch& arch, const Fits& fits_arch) {
  for (const Shape& shape : shapes) {
    const Config config = with_shape(base, shape);
    if (fits_arch(config, arch)) return config;
  }
  return std::nullopt;
}

std::optional<Config> find_default(const Problem& problem, const Arch& arch) {
  const std::optional<Config> dkdv = first_fitting<DkdvShape>(
      base_config(problem), std::span<const DkdvShape>(kDkdvShapes), arch, dkdv_fits);
  if (!dkdv) return std::nullopt;
  return first_fitting<DqShape>(*dkdv, std::span<const DqShape>(kDqShapes), arch, dq_fits);
}

LaunchGeometry geometry(const attention::BlockOrder& order, int threads, int64_t shared_bytes) {
  return {
      .grid = along_x(num_blocks(order)), .block = along_x(threads), .shared_bytes = shared_bytes};
}

}  // namespace

std::vector<std::string> BackwardSm80::refusals(const Problem& problem, const Arch& arch) {
  std::vector<std::string> reasons = common_refusals(Config::family(), NeededArch::kSm80OrLater,
                                                     problem, arch, unusual_features(problem));
  if (reasons.empty() && !find_default(problem, arch)) reasons.push_back(no_config_fits(arch));
  return reasons;
}

// The passes share nothing but the problem, so each is varied beside the other's default.
std::vector<Config> BackwardSm80::candidates(const Problem& problem, const Arch& arch) {
  const Config base = default_config(problem, arch);
  std::vector<Config> configs = {base};
  const auto add = [&](const Config& config, bool fits_arch) {
    if (fits_arch && config != base) configs.push_back(config);
  };
  for (const int warps : {4, 8}) {
    for (const int rows_per_warp : {16, 32}) {
      for (const int stages : {1, 2}) {
        for (const int column_warps : {1, 2, 4}) {
          for (const int tile_m : {16, 32, 64}) {
            const Config config =
                with_shape(base, DkdvShape{tile_m, warps * rows_per_warp / column_warps, warps,
                                           column_warps, stages});
            add(config, tile_m % (16 * column_warps) == 0 && dkdv_fits(config, arch));
          }
        }
        for (const int tile_n : {16, 32, 48, 64, 96, 128}) {
          const Config config =
              with_shape(base, DqShape{warps * rows_per_warp, tile_n, warps, stages});
          add(config, dq_fits(config, arch));
        }
      }
    }
  }
  return configs;
}

Config BackwardSm80::default_config(const Problem& problem, const Arch& arch) {
  return default_of_accepted(find_default(problem, arch));
}

std::vector<EntryPoint> BackwardSm80::entries(const Config& config) {
  return {{.name = "tw_backward_preprocess",
           .function = "backward_preprocess_cta",
           .launch_bounds = "config().preprocess_threads(), 1"},
          {.name = "tw_backward_dkdv",
           .function = "backward_dkdv_cta",
           .launch_bounds = "config().dkdv_threads(), 1",
           .shared_bytes = config.dkdv_shared_bytes()},
          {.name = "tw_backward_dq",
           .function = "backward_dq_cta",
           .launch_bounds = "config().dq_threads(), 1",
           .shared_bytes = config.dq_shared_bytes()}};
}

Result<FamilyLaunch> BackwardSm80::plan(const Problem& problem, const Config& config,
                                        const Arch& arch, const Shape& shape) {
  TW_TRY(check_lengths(shape, Config::family()));
  const int64_t row_bytes = (config.head_dim_qk + config.head_dim_v) * 2;
  const int64_t statistics_rows = ceil_div(shape.seqlen_q, config.dkdv_tile_m) * config.dkdv_tile_m;
  const RowInterval interval = row_interval(problem, shape.seqlen_q, shape.seqlen_k);
  const ScoreFactors factors = score_factors(problem, config.head_dim_qk);

  Params params = {};
  params.row_left = interval.row_left;
  params.row_right = interval.row_right;
  params.num_heads_q = static_cast<int>(shape.num_heads_q);
  params.num_heads_kv = static_cast<int>(shape.num_heads_kv);
  params.seqlen_q = static_cast<int>(shape.seqlen_q);
  params.seqlen_k = static_cast<int>(shape.seqlen_k);
  params.statistics_rows = static_cast<int>(statistics_rows);
  params.scale_log2 = factors.scale_log2;
  params.tanh_scale = factors.tanh_scale;
  params.scale = static_cast<float>(
      problem.softmax_scale.value_or(1.0 / std::sqrt(static_cast<double>(config.head_dim_qk))));

  FamilyLaunch launch;
  if (shape.batch == 0 || shape.num_heads_q == 0) return launch;
  const int64_t group_size = shape.num_heads_q / shape.num_heads_kv;
  params.group_size = static_cast<int>(group_size);
  if (shape.seqlen_q > 0) {
    params.preprocess_blocks =
        static_cast<int>(ceil_div(statistics_rows, config.preprocess_rows()));
    TW_ASSIGN(
        const attention::BlockOrder order,
        block_order({.heads = shape.num_heads_q, .tiles = params.preprocess_blocks}, shape, arch));
    launch.add_step(kPreprocess, geometry(order, config.preprocess_threads(), 0));
    launch.workspace_bytes =
        order.num_pairs * statistics_rows * int64_t{sizeof(attention::RowStatistics)};
  }
  if (shape.seqlen_k > 0) {
    // Key tiles of one head read Q and dO of its group.
    TW_ASSIGN(params.key_blocks,
              block_order({.heads = shape.num_heads_kv,
                           .tiles = ceil_div(shape.seqlen_k, config.dkdv_tile_n),
                           .shared_bytes = group_size * shape.seqlen_q * row_bytes},
                          shape, arch));
    launch.add_step(kDkdv,
                    geometry(params.key_blocks, config.dkdv_threads(), config.dkdv_shared_bytes()));
  }
  if (shape.seqlen_q > 0) {
    // A whole group of query heads shares one K and V.
    TW_ASSIGN(params.query_blocks, block_order({.heads = shape.num_heads_q,
                                                .tiles = ceil_div(shape.seqlen_q, config.dq_tile_m),
                                                .shared_bytes = shape.seqlen_k * row_bytes,
                                                .sharers = group_size},
                                               shape, arch));
    launch.add_step(kDq,
                    geometry(params.query_blocks, config.dq_threads(), config.dq_shared_bytes()));
  }
  launch.params = params;
  return launch;
}

void BackwardSm80::bind(const BoundTensors& tensors, Params& params) {
  const auto data = [&](TensorId id) { return tensors[id].data; };
  const auto strides = [&](TensorId id) { return tensors[id].strides; };
  bind_attention(tensors, params);
  params.dout = data(TensorId::kDout);
  params.dq = data(TensorId::kDq);
  params.dk = data(TensorId::kDk);
  params.dv = data(TensorId::kDv);
  params.statistics = static_cast<attention::RowStatistics*>(tensors.workspace);
  params.dout_strides = strides(TensorId::kDout);
  params.dq_strides = strides(TensorId::kDq);
  params.dk_strides = strides(TensorId::kDk);
  params.dv_strides = strides(TensorId::kDv);
}

}  // namespace tilewright
