// The host side of backward_sm80: what it refuses, that its configs fit every device, and its plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "generator/backward_sm80.h"
#include "generator/generator.h"

namespace tilewright {
namespace {

using attention::BackwardSm80Config;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

Problem parse(const std::string& text) {
  const auto problem = Problem::parse(text);
  EXPECT_TRUE(problem.ok()) << text << ": " << problem.error().to_string();
  return *problem;
}

std::vector<std::string> reasons(const std::string& text, const char* target = "sm_80") {
  std::vector<std::string> result;
  for (const Refusal& refusal : refusals(parse(text), *arch_from_target(target))) {
    EXPECT_EQ(refusal.family, "backward_sm80");
    result.push_back(refusal.reason);
  }
  return result;
}

TEST(BackwardRefusals, NoneForWhatIsBuilt) {
  for (const char* text :
       {"backward qk128 v128", "backward qk16", "backward qk256 v8 bf16 causal",
        "backward qk80 v48 causal=top-left", "backward qk64 softcap=50", "backward qk64 scale=0.1",
        "backward qk64 window=256,0", "backward qk64 strided", "backward qk64 layout=bhsd",
        "backward qk64 deterministic", "backward b70000 hq8 hkv2 qk64 q1 k0"}) {
    EXPECT_THAT(reasons(text), IsEmpty()) << text;
  }
}

TEST(BackwardRefusals, NameTheFeature) {
  const std::pair<const char*, const char*> cases[] = {
      {"backward qk64 fp8e4m3 out=bf16", "type fp8e4m3"},
      {"backward qk64 window=2,2,dilation:3", "window dilation 3"},
      {"backward qk64 causal+prefix=8", "mask prefix"},
      {"backward qk64 documents", "mask documents"},
      {"backward qk64 alibi", "alibi"},
      {"backward qk64 bias", "bias"},
      {"backward qk64 sink", "sink"},
      {"backward qk64 varlen", "varlen"},
      {"backward qk64 dropout=0.1", "dropout"},
      {"backward qk64 scale=-1", "a negative scale"},
  };
  for (const auto& [text, feature] : cases) {
    EXPECT_THAT(reasons(text),
                Contains(std::string(feature) + " is not built yet in backward_sm80"))
        << text;
  }
  EXPECT_THAT(reasons("backward qk60 v264"),
              ElementsAre("head_dim_qk=60 is not a multiple of 8 from 8 to 256",
                          "head_dim_v=264 is not a multiple of 8 from 8 to 256"));
}

const BackwardSm80Config& backward(const AnyConfig& config) {
  return std::get<BackwardSm80Config>(config);
}

// The limits as the CUDA guide states them, apart from the generator's own arithmetic.
void expect_launchable(const BackwardSm80Config& config, const Arch& arch) {
  const std::string text = to_string(AnyConfig(config));
  const auto padded = [](int dim, int multiple) {
    return (dim + multiple - 1) / multiple * multiple;
  };
  const int shared_keys = config.dkdv_column_warps;
  const int columns =
      padded(config.head_dim_qk, 16 * shared_keys) + padded(config.head_dim_v, 16 * shared_keys);
  int dkdv = config.dkdv_tile_n * columns * 2 +
             config.dkdv_stages * config.dkdv_tile_m * (columns * 2 + 8);
  if (shared_keys > 1) dkdv += 2 * config.dkdv_tile_m * config.dkdv_tile_n * 2;
  const int depth = padded(config.head_dim_qk, 16) + padded(config.head_dim_v, 16);
  const int dq = (config.dq_tile_m + config.dq_stages * config.dq_tile_n) * depth * 2;
  EXPECT_EQ(config.dkdv_shared_bytes(), dkdv) << text;
  EXPECT_EQ(config.dq_shared_bytes(), dq) << text;
  EXPECT_LE(std::max(dkdv, dq), arch.shared_bytes_per_block) << text;
  // Accumulators of a thread, and a register file of 65536.
  const int dkdv_sums = config.dkdv_tile_n * columns / config.dkdv_threads();
  const int dq_sums = config.dq_tile_m * padded(config.head_dim_qk, 16) / config.dq_threads();
  EXPECT_LT(dkdv_sums, std::min(65536 / config.dkdv_threads(), 255)) << text;
  EXPECT_LT(dq_sums, std::min(65536 / config.dq_threads(), 255)) << text;
}

TEST(BackwardCandidates, FitEveryDeviceAndHoldTheDefault) {
  for (const DeviceProfile& profile : device_profiles()) {
    for (int head_dim = 8; head_dim <= 256; head_dim += 8) {
      for (const int head_dim_v : {head_dim, 8, 256}) {
        const Problem problem = parse("backward qk" + std::to_string(head_dim) + " v" +
                                      std::to_string(head_dim_v) + " bf16 causal");
        const std::vector<AnyConfig> all = candidates(problem, profile.arch);
        ASSERT_FALSE(all.empty()) << profile.name << " " << head_dim;
        for (const AnyConfig& config : all) expect_launchable(backward(config), profile.arch);
        const auto choice = choose_config(problem, profile.arch);
        ASSERT_TRUE(choice.ok());
        EXPECT_NE(std::find(all.begin(), all.end(), choice->config), all.end());
        EXPECT_EQ(backward(choice->config).head_dim_v, head_dim_v);
        EXPECT_TRUE(backward(choice->config).row_range);
      }
    }
  }
}

TEST(BackwardCandidates, AreDistinct) {
  std::vector<std::string> texts;
  for (const AnyConfig& config : candidates(parse("backward qk64"), *arch_from_target("sm_80"))) {
    texts.push_back(to_string(config));
  }
  EXPECT_GT(texts.size(), 20u);
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
}

attention::BackwardParams params_of(const char* text, const Shape& shape) {
  const auto launch =
      BackwardSm80::plan(parse(text), BackwardSm80Config{}, *arch_from_target("sm_80"), shape);
  EXPECT_TRUE(launch.ok());
  return std::get<attention::BackwardParams>(launch->params);
}

TEST(BackwardPlan, FactorsOfTheSoftmax) {
  const double log2_e = 1.4426950408889634;
  const auto scaled = params_of("backward qk128 scale=0.3", {1, 1, 1, 1, 1});
  EXPECT_FLOAT_EQ(scaled.scale, 0.3f);
  EXPECT_FLOAT_EQ(scaled.scale_log2, static_cast<float>(0.3 * log2_e));
  const auto capped = params_of("backward qk128 scale=0.3 softcap=20", {1, 1, 1, 1, 1});
  EXPECT_FLOAT_EQ(capped.scale, 0.3f) << "the cap's slope is dealt with element by element";
  EXPECT_FLOAT_EQ(capped.scale_log2, static_cast<float>(20 * log2_e));
  EXPECT_FLOAT_EQ(capped.tanh_scale, 0.015f);
  EXPECT_EQ(params_of("backward qk128 scale=0", {1, 1, 1, 1, 1}).scale, 0.0f);
}

TEST(BackwardPlan, RefusesWhatExceedsThirtyTwoBits) {
  for (const Shape& shape :
       {Shape{1, int64_t{1} << 31, 1, 1, 1}, Shape{1, 1, int64_t{1} << 31, 1, 1},
        Shape{int64_t{1} << 31, 1, 1, 1, 1}, Shape{int64_t{1} << 62, 1, 1, 8, 1},
        Shape{1 << 20, 1 << 20, 1, 1, 1}, Shape{1 << 20, 0, 1 << 20, 1, 1}}) {
    const auto launch = BackwardSm80::plan(parse("backward qk64"), BackwardSm80Config{},
                                           *arch_from_target("sm_80"), shape);
    ASSERT_FALSE(launch.ok());
    EXPECT_EQ(launch.error().code, ErrorCode::kUnsupportedProblem);
  }
}

}  // namespace
}  // namespace tilewright
