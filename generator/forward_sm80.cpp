#include "generator/forward_sm80.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/any_config.h"
#include "core/check.h"
#include "generator/forward_launch.h"
#include "generator/forward_problem.h"
#include "generator/launch_size.h"
#include "generator/packed_heads.h"
#include "generator/refusals.h"
#include "generator/tile_schedule.h"

namespace tilewright {
namespace {

using Config = ForwardSm80::Config;

enum Entry : int { kForward, kCombine };

constexpr int64_t kMaxSplits = 256;
constexpr int64_t kMaxPageSize = 1 << 20;

struct TileShape {
  int tile_m, tile_n, num_warps, stages;
  bool q_in_registers = false;
};

int registers_available(const Config& config, const Arch& arch) {
  const int per_block = arch.registers_per_sm / config.min_blocks_per_sm;
  const int per_thread = per_block / config.num_threads() / 8 * 8;
  return std::min(per_thread, arch.max_registers_per_thread);
}

// Registers of a thread: the accumulators of S and O, and Q if it stays, live through the loop;
// then addresses, operands in flight, row statistics and loop state. The constants for these are
// the least with which ptxas 13.0 spilled in none of several hundred sampled configs: a single
// stage without softcap, element-wise copies or a tile list gets by with less, K and V rows of
// different length take more, as no address serves both; so do lengths, pages and packed heads.
int registers_needed(const Config& config) {
  constexpr int kOther = 83;
  constexpr int kOtherLean = 79;
  constexpr int kUnequalRows = 12;
  constexpr int kVaryingLengths = 8;
  constexpr int kPages = 8;
  constexpr int kPackedHeads = 8;
  const bool lean = config.stages == 1 && !config.softcap && !config.strided && !config.tile_list;
  const int accumulators =
      4 * config.row_fragments() * (config.key_fragments() + config.out_fragments());
  const int q = config.q_in_registers ? 4 * config.row_fragments() * config.depth_fragments() : 0;
  const int unequal = config.head_dim_qk_padded() == config.head_dim_v ? 0 : kUnequalRows;
  const int varying = (config.lengths_vary() ? kVaryingLengths : 0) +
                      (config.page_size > 0 ? kPages : 0) +
                      (config.packed_heads > 1 ? kPackedHeads : 0);
  return accumulators + q + varying + (lean ? kOtherLean : kOther) + unequal;
}

bool fits(const Config& config, const Arch& arch) {
  const int warps = config.num_warps * config.min_blocks_per_sm;
  const int64_t shared = config.shared_bytes() + arch.shared_bytes_reserved;
  return config.shared_bytes() <= arch.shared_bytes_per_block &&
         shared * config.min_blocks_per_sm <= arch.shared_bytes_per_sm &&
         warps <= arch.max_warps_per_sm && config.min_blocks_per_sm <= arch.max_blocks_per_sm &&
         registers_needed(config) <= registers_available(config, arch);
}

// The config's fields that the problem decides.
Config base_config(const Problem& problem) {
  Config config = softmax_config<Config>(problem);
  config.tile_list = needs_tile_list(problem);
  config.row_range = !config.tile_list && has_row_bounds(problem);
  config.split = problem.num_splits.value_or(1) > 1;
  config.varlen = problem.varlen;
  config.page_size = static_cast<int>(problem.page_size.value_or(0));
  config.strided = problem.strided;
  return config;
}

// As many heads as a tile of the config should hold, by what the problem says of lengths and heads.
int packed_heads(const Problem& problem, const Config& config) {
  if (config.tile_list || !problem.seqlen_q || !problem.num_heads_q || !problem.num_heads_kv ||
      *problem.num_heads_kv == 0) {
    return 1;
  }
  return static_cast<int>(heads_to_pack(
      *problem.seqlen_q, *problem.num_heads_q / *problem.num_heads_kv, config.tile_m));
}

Config with_shape(Config config, const TileShape& shape) {
  config.tile_m = shape.tile_m;
  config.tile_n = shape.tile_n;
  config.num_warps = shape.num_warps;
  config.stages = shape.stages;
  config.q_in_registers = shape.q_in_registers;
  return config;
}

// Warps that shared memory and registers let an SM hold, if each thread takes what it needs.
int resident_warps(const Config& config, const Arch& arch) {
  const int64_t by_shared =
      arch.shared_bytes_per_sm / (config.shared_bytes() + arch.shared_bytes_reserved);
  const int64_t by_registers =
      arch.registers_per_sm / (config.num_threads() * ((registers_needed(config) + 7) / 8 * 8));
  const int64_t blocks = std::min<int64_t>({by_shared, by_registers, arch.max_blocks_per_sm});
  return static_cast<int>(blocks) * config.num_warps;
}

// In order of preference. 32 rows a warp halve the shared-memory reads per MMA, which at 16 rows
// take as long as the MMAs themselves on sm_80; above head dim 128 their accumulators do not fit.
std::span<const TileShape> preferred_shapes(const Config& config, bool few_rows) {
  static constexpr std::array kFewRows = {TileShape{64, 64, 4, 2}, TileShape{64, 64, 4, 1},
                                          TileShape{64, 32, 4, 1}};
  static constexpr std::array kUpTo64 = {TileShape{128, 64, 4, 2}, TileShape{128, 32, 4, 2}};
  static constexpr std::array kUpTo128 = {TileShape{128, 64, 4, 1}, TileShape{128, 48, 4, 1},
                                          TileShape{128, 32, 4, 1}, TileShape{64, 64, 4, 1}};
  static constexpr std::array kAbove128 = {TileShape{128, 64, 8, 1}, TileShape{128, 32, 8, 1},
                                           TileShape{64, 64, 4, 1}, TileShape{64, 32, 4, 1}};
  if (few_rows) return kFewRows;
  const int head_dim = std::max(config.head_dim_qk_padded(), config.head_dim_v);
  if (head_dim <= 64) return kUpTo64;
  if (head_dim <= 128) return kUpTo128;
  return kAbove128;
}

// Whether blocks of the mask are finer than a tile of 128 queries, so that it would join rows that
// see different keys.
bool has_fine_blocks(const Problem& problem) {
  const auto is_fine = [](const Mask& mask) {
    if (const auto* blocks = std::get_if<BlocksMask>(&mask)) return blocks->size % 128 != 0;
    const auto* bigbird = std::get_if<BigBirdMask>(&mask);
    return bigbird != nullptr && bigbird->block % 128 != 0;
  };
  return std::any_of(problem.masks.begin(), problem.masks.end(), [&](const MaskUnion& masks) {
    return std::any_of(masks.terms.begin(), masks.terms.end(), is_fine);
  });
}

std::optional<Config> find_default(const Problem& problem, const Arch& arch) {
  // Two warps for each of the four schedulers: one's softmax runs under the other's MMAs.
  constexpr int kEnoughWarps = 8;
  const Config base = base_config(problem);
  const bool few_rows = problem.seqlen_q.value_or(4096) <= 64 || has_fine_blocks(problem);
  std::optional<Config> best;
  for (const TileShape& shape : preferred_shapes(base, few_rows)) {
    Config config = with_shape(base, shape);
    config.packed_heads = packed_heads(problem, config);
    if (!fits(config, arch)) continue;
    if (!best) best = config;
    if (resident_warps(config, arch) >= kEnoughWarps) return config;
  }
  return best;
}

}  // namespace

std::vector<std::string> ForwardSm80::refusals(const Problem& problem, const Arch& arch) {
  Problem rest = problem;
  rest.varlen = false;
  rest.num_splits.reset();
  rest.page_size.reset();
  std::vector<std::string> reasons =
      common_refusals(Config::family(), NeededArch::kSm80OrLater, problem, arch,
                      unusual_features(rest, MaskSupport::kTileLists));
  check_packed_layout(problem, reasons);
  if (problem.page_size.value_or(1) > kMaxPageSize) {
    reasons.push_back(fmt::format("paged={} is more than {}", *problem.page_size, kMaxPageSize));
  }
  if (problem.num_splits.value_or(1) > kMaxSplits) {
    reasons.push_back(fmt::format("splits={} is more than {}", *problem.num_splits, kMaxSplits));
  }
  if (reasons.empty() && !find_default(problem, arch)) reasons.push_back(no_config_fits(arch));
  return reasons;
}

std::vector<Config> ForwardSm80::candidates(const Problem& problem, const Arch& arch) {
  std::vector<Config> configs;
  const Config base = base_config(problem);
  for (const int num_warps : {4, 8}) {
    for (const int rows_per_warp : {16, 32}) {
      for (const int tile_n : {32, 48, 64, 96, 128}) {
        for (const int stages : {1, 2, 3}) {
          for (const bool q_in_registers : {false, true}) {
            for (const int min_blocks : {1, 2, 3}) {
              Config config = with_shape(
                  base, {num_warps * rows_per_warp, tile_n, num_warps, stages, q_in_registers});
              config.min_blocks_per_sm = min_blocks;
              // The bound changes nothing where the register file holds that many blocks anyway.
              const bool bound_acts = min_blocks == 1 || registers_available(config, arch) <
                                                             arch.max_registers_per_thread;
              if (!bound_acts || !fits(config, arch)) continue;
              configs.push_back(config);
              config.packed_heads = packed_heads(problem, config);
              if (config.packed_heads > 1 && fits(config, arch)) configs.push_back(config);
            }
          }
        }
      }
    }
  }
  return configs;
}

Config ForwardSm80::default_config(const Problem& problem, const Arch& arch) {
  return default_of_accepted(find_default(problem, arch));
}

std::vector<EntryPoint> ForwardSm80::entries(const Config& config) {
  std::vector<EntryPoint> entries = {
      {.name = "tw_forward",
       .function = "forward_sm80_cta",
       .launch_bounds = "config().num_threads(), config().min_blocks_per_sm",
       .shared_bytes = config.shared_bytes()}};
  if (config.split) {
    entries.push_back({.name = "tw_combine", .function = "forward_combine_cta"});
  }
  return entries;
}

Result<FamilyLaunch> ForwardSm80::plan(const Problem& problem, const Config& config,
                                       const Arch& arch, const Shape& shape) {
  TW_TRY(check_lengths(shape, Config::family()));
  FamilyLaunch launch;
  if (has_no_output(shape)) return launch;
  TW_ASSIGN(Params params, forward_params(problem,
                                          {config.tile_m, config.head_dim_qk, config.head_dim_v,
                                           config.packed_heads},
                                          arch, shape));
  if (config.tile_list) {
    launch.schedule_tile = {config.tile_m, config.tile_n};
  } else {
    set_row_bounds(problem, shape, config.lengths_vary(), params);
  }
  params.table_width = config.page_size == 0 ? 0 : ceil_div(shape.seqlen_k, config.page_size);

  params.num_splits = static_cast<int>(config.split ? problem.num_splits.value_or(1) : 1);

  launch.params = params;
  const Dim3 block = along_x(config.num_threads());
  launch.add_step(kForward, {.grid = {.x = forward_grid(params, config.packed_heads).x,
                                      .y = static_cast<uint32_t>(params.num_splits)},
                             .block = block,
                             .shared_bytes = config.shared_bytes()});
  if (config.split) {
    const int64_t rows = int64_t{params.num_batch_heads} * shape.seqlen_q;
    const int64_t blocks =
        saturating_product(params.num_batch_heads, ceil_div(shape.seqlen_q, config.num_warps));
    TW_TRY(check_grid(blocks, shape));
    launch.workspace_bytes = params.num_splits * rows * (config.head_dim_v + 1) * 4;
    launch.add_step(kCombine, {.grid = along_x(blocks), .block = block});
  }
  return launch;
}

void ForwardSm80::bind(const BoundTensors& tensors, Params& params) {
  bind_forward(tensors, params);
  params.seqused_k = static_cast<const int*>(tensors[TensorId::kSequsedK].data);
  params.block_table = static_cast<const int*>(tensors[TensorId::kBlockTable].data);
  const int64_t rows = int64_t{params.num_batch_heads} * params.seqlen_q * params.num_splits;
  params.partial_lse = static_cast<float*>(tensors.workspace);
  params.partial_out = params.partial_lse + rows;
  if (tensors.schedule.data != nullptr) params.tile_lists = tile_lists(tensors.schedule);
}

}  // namespace tilewright
