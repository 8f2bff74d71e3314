// Candidates and defaults stay within the limits of every known device, for every head dim.
#include <gtest/gtest.h>

#include <algorithm>

#include "generator/generator.h"

namespace tilewright {
namespace {

using attention::ForwardSm80Config;

Problem problem_of(int head_dim_qk, int head_dim_v, const char* rest) {
  const auto problem =
      Problem::parse("qk" + std::to_string(head_dim_qk) + " v" + std::to_string(head_dim_v) + rest);
  EXPECT_TRUE(problem.ok());
  return *problem;
}

const ForwardSm80Config& forward(const AnyConfig& config) {
  return std::get<ForwardSm80Config>(config);
}

// Every device as forward_sm80 sees it: without the instructions that make another family the
// better one.
std::vector<Arch> all_archs() {
  std::vector<Arch> archs;
  for (const DeviceProfile& profile : device_profiles()) {
    archs.push_back(profile.arch);
    archs.back().has_suffix = false;
  }
  return archs;
}

// The limits as the CUDA guide states them, apart from the generator's own arithmetic.
void expect_launchable(const ForwardSm80Config& config, const Arch& arch) {
  const int padded = (config.head_dim_qk + 15) / 16 * 16;
  const int stage = 2 * config.tile_n * (padded + config.head_dim_v);
  const int q = 2 * config.tile_m * padded;
  const bool overlap = config.q_in_registers && config.stages > 1;
  const int expected = overlap ? std::max(config.stages * stage, (config.stages - 1) * stage + q)
                               : config.stages * stage + q;
  EXPECT_EQ(config.shared_bytes(), expected) << to_string(AnyConfig(config));
  EXPECT_LE(config.shared_bytes(), arch.shared_bytes_per_block);
  EXPECT_LE((config.shared_bytes() + 1024) * config.min_blocks_per_sm, arch.shared_bytes_per_sm);
  EXPECT_LE(config.num_warps * 32, 1024);
  EXPECT_EQ(config.tile_n % 16, 0);
  EXPECT_TRUE(config.tile_m == 16 * config.num_warps || config.tile_m == 32 * config.num_warps);
  const int accumulators =
      config.tile_m / config.num_warps * (config.tile_n + config.head_dim_v) / 32;
  const int file = 65536 / (config.num_threads() * config.min_blocks_per_sm);
  EXPECT_LT(accumulators, std::min(file, 255)) << to_string(AnyConfig(config));
}

TEST(Candidates, FitEveryDeviceAndHoldTheDefault) {
  for (const Arch& arch : all_archs()) {
    for (int head_dim = 8; head_dim <= 256; head_dim += 8) {
      for (const char* rest : {"", " causal bf16", " softcap=50 causal strided", " q1"}) {
        const Problem problem = problem_of(head_dim, head_dim, rest);
        const std::vector<AnyConfig> all = candidates(problem, arch);
        ASSERT_FALSE(all.empty()) << arch.target() << " " << head_dim;
        for (const AnyConfig& config : all) expect_launchable(forward(config), arch);
        const auto choice = choose_config(problem, arch);
        ASSERT_TRUE(choice.ok());
        EXPECT_EQ(choice->provenance, "default");
        EXPECT_NE(std::find(all.begin(), all.end(), choice->config), all.end())
            << arch.target() << ": " << to_string(choice->config);
      }
    }
  }
}

TEST(Candidates, TakeMixedHeadDims) {
  for (const Arch& arch : all_archs()) {
    for (const auto& [qk, v] : {std::pair{8, 256}, {256, 8}, {192, 128}, {24, 72}}) {
      const auto choice = choose_config(problem_of(qk, v, ""), arch);
      ASSERT_TRUE(choice.ok());
      EXPECT_EQ(forward(choice->config).head_dim_qk, qk);
      EXPECT_EQ(forward(choice->config).head_dim_v, v);
      expect_launchable(forward(choice->config), arch);
    }
  }
}

TEST(Candidates, AreDistinct) {
  std::vector<std::string> texts;
  for (const AnyConfig& config : candidates(problem_of(64, 64, ""), *arch_from_target("sm_80"))) {
    texts.push_back(to_string(config));
  }
  EXPECT_GT(texts.size(), 20u);
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
}

TEST(DefaultConfig, FollowsTheProblem) {
  const auto choice = choose_config(*Problem::parse("qk64 v64 bf16 window=3,4 softcap=2 strided"),
                                    *arch_from_target("sm_80"));
  ASSERT_TRUE(choice.ok());
  const ForwardSm80Config& config = forward(choice->config);
  EXPECT_EQ(config.dtype, attention::Dtype::kBFloat16);
  EXPECT_TRUE(config.row_range && config.softcap && config.strided);
  const auto dense =
      choose_config(*Problem::parse("qk64 v64 window=*,*"), *arch_from_target("sm_80"));
  ASSERT_TRUE(dense.ok());
  EXPECT_FALSE(forward(dense->config).row_range) << "a window open on both sides masks nothing";
}

int default_packed_heads(const char* problem) {
  const auto choice = choose_config(*Problem::parse(problem), *arch_from_target("sm_80"));
  EXPECT_TRUE(choice.ok()) << problem;
  return forward(choice->config).packed_heads;
}

// A group's heads share a tile where that leaves at least a tenth fewer blocks.
TEST(DefaultConfig, PacksGroupsOfShortQueries) {
  EXPECT_EQ(default_packed_heads("hq32 hkv4 q1 qk128 v128"), 8);
  EXPECT_EQ(default_packed_heads("hq71 hkv1 q1 qk64 v64 causal varlen paged=16 splits=4"), 71);
  EXPECT_EQ(default_packed_heads("hq6 hkv2 q17 qk64 v64 strided"), 3);
  EXPECT_EQ(default_packed_heads("hq8 hkv1 q65 qk64 v64"), 8) << "5 tiles of 128 instead of 8";
  EXPECT_EQ(default_packed_heads("hq8 hkv1 q64 qk64 v64"), 1) << "the rows fill their tiles";
  EXPECT_EQ(default_packed_heads("hq8 hkv1 q4097 qk64 v64"), 1) << "257 tiles instead of 264";
  EXPECT_EQ(default_packed_heads("hq8 hkv8 q1 qk64 v64"), 1);
  EXPECT_EQ(default_packed_heads("hq8 hkv1 q1 qk64 v64 bigbird"), 1);
  EXPECT_EQ(default_packed_heads("hq8 hkv1 qk64 v64"), 1) << "lengths are not known to be short";
  EXPECT_EQ(default_packed_heads("q1 qk64 v64"), 1) << "groups are not known";
}

// Packed and plain configs both, for a tuner to choose from.
TEST(Candidates, OfferPackedHeadsBesideSingleOnes) {
  const Problem problem = *Problem::parse("hq8 hkv1 q1 qk64 v64");
  int packed = 0, single = 0;
  const std::vector<AnyConfig> all = candidates(problem, *arch_from_target("sm_80"));
  for (const AnyConfig& config : all) {
    const int heads = forward(config).packed_heads;
    EXPECT_TRUE(heads == 1 || heads == 8);
    ++(heads == 1 ? single : packed);
  }
  EXPECT_GT(packed, 20);
  EXPECT_GE(single, packed) << "packed rows take registers";
  const AnyConfig chosen = choose_config(problem, *arch_from_target("sm_80"))->config;
  EXPECT_NE(std::find(all.begin(), all.end(), chosen), all.end());
}

// An SM should hold two warps for each of its four schedulers wherever some shape allows it.
TEST(DefaultConfig, KeepsEnoughWarpsResident) {
  for (const Arch& arch : all_archs()) {
    for (int head_dim = 8; head_dim <= 256; head_dim += 8) {
      const auto choice = choose_config(problem_of(head_dim, head_dim, ""), arch);
      ASSERT_TRUE(choice.ok());
      const ForwardSm80Config& config = forward(choice->config);
      const int64_t blocks = arch.shared_bytes_per_sm / (config.shared_bytes() + 1024);
      EXPECT_GE(blocks * config.num_warps, 8) << arch.target() << " " << to_string(choice->config);
    }
  }
}

}  // namespace
}  // namespace tilewright
