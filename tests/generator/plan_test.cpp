// Launch planning: grid, ranges, the interval of keys, and the factors of the softmax.
#include <gtest/gtest.h>

#include <cmath>

#include "generator/forward_problem.h"
#include "generator/forward_sm80.h"

namespace tilewright {
namespace {

using attention::ForwardSm80Config;

FamilyLaunch plan(const char* problem, const ForwardSm80Config& config, const Shape& shape) {
  const auto parsed = Problem::parse(problem);
  EXPECT_TRUE(parsed.ok()) << problem;
  const auto launch = ForwardSm80::plan(*parsed, config, *arch_from_target("sm_80"), shape);
  EXPECT_TRUE(launch.ok()) << launch.error().message;
  return *launch;
}

attention::ForwardParams params_of(const FamilyLaunch& launch) {
  return std::get<attention::ForwardParams>(launch.params);
}

TEST(PlanForward, CountsBlocksOnTheFirstGridAxis) {
  const ForwardSm80Config config = {.tile_m = 64, .num_warps = 2};
  const FamilyLaunch launch = plan("qk128", config, {70000, 129, 5, 8, 2});
  EXPECT_EQ(launch.steps[0].geometry.grid, (Dim3{70000 * 8 * 3, 1, 1}));
  EXPECT_EQ(launch.steps[0].geometry.block, (Dim3{64, 1, 1}));
  EXPECT_EQ(launch.steps[0].geometry.cluster, (Dim3{1, 1, 1}));
  EXPECT_EQ(launch.steps[0].geometry.shared_bytes, config.shared_bytes());
  EXPECT_EQ(params_of(launch).num_query_tiles, 3);
  EXPECT_EQ(params_of(launch).num_batch_heads, 560000);
  EXPECT_EQ(params_of(launch).group_size, 4);
  EXPECT_FALSE(launch.empty());
}

TEST(PlanForward, ZeroSizesAreEmptyButNoKeysAreNot) {
  EXPECT_TRUE(plan("qk64", {}, {0, 5, 5, 1, 1}).empty());
  EXPECT_TRUE(plan("qk64", {}, {1, 0, 5, 1, 1}).empty());
  const FamilyLaunch no_keys = plan("qk64", {}, {1, 5, 0, 1, 1});
  EXPECT_FALSE(no_keys.empty()) << "every row is 0, with lse -inf, and must be written";
  EXPECT_GE(params_of(no_keys).section_size, 1);
}

TEST(PlanForward, RefusesWhatExceedsThirtyTwoBits) {
  const auto problem = Problem::parse("qk64");
  const Arch arch = *arch_from_target("sm_80");
  for (const Shape& shape :
       {Shape{1, int64_t{1} << 31, 1, 1, 1}, Shape{1, 1, int64_t{1} << 31, 1, 1},
        Shape{int64_t{1} << 31, 1, 1, 1, 1}, Shape{int64_t{1} << 62, 1, 1, 8, 1},
        Shape{1 << 20, 1 << 20, 1, 1, 1}}) {
    const auto launch = ForwardSm80::plan(*problem, ForwardSm80Config{}, arch, shape);
    ASSERT_FALSE(launch.ok());
    EXPECT_EQ(launch.error().code, ErrorCode::kUnsupportedProblem);
  }
}

// Groups of 6 heads with 5 rows each are 30 rows: one block of 64 instead of six.
TEST(PlanForward, PacksHeadsIntoRows) {
  const ForwardSm80Config config = {.packed_heads = 6, .tile_m = 64};
  const FamilyLaunch launch = plan("qk128 splits=3", config, {7, 5, 100, 12, 2});
  EXPECT_EQ(launch.steps[0].geometry.grid.x, 7u * 2);
  EXPECT_EQ(params_of(launch).num_query_tiles, 1);
  EXPECT_EQ(params_of(launch).num_batch_heads, 7 * 12);
  EXPECT_EQ(params_of(launch).section_size, 7 * 2);
  EXPECT_EQ(plan("qk128", config, {7, 11, 100, 12, 2}).steps[0].geometry.grid.x, 7u * 2 * 2);
  const Arch arch = *arch_from_target("sm_80");
  for (const Shape& shape : {Shape{1, 5, 5, 8, 2}, Shape{1, 1 << 29, 5, 6, 1}}) {
    const auto refused = ForwardSm80::plan(*Problem::parse("qk128"), config, arch, shape);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupportedProblem);
  }
}

// Whole groups of query heads, as many as have their K and V in half of L2 (40 MiB here).
TEST(PlanForward, SectionsShareTheCache) {
  EXPECT_EQ(params_of(plan("qk128 v128", {}, {4, 4096, 4096, 32, 8})).section_size,
            40);  // 10 x 2 MiB
  EXPECT_EQ(params_of(plan("qk128 v128", {}, {4, 128, 128, 32, 8})).section_size, 128);  // all
  EXPECT_EQ(params_of(plan("qk128 v128", {}, {1, 1 << 20, 1 << 20, 32, 8})).section_size, 4);
}

TEST(PlanForward, FoldsTheScaleIntoBaseTwo) {
  const double log2_e = 1.4426950408889634;
  const FamilyLaunch plain = plan("qk64", {.head_dim_qk = 64}, {1, 1, 1, 1, 1});
  EXPECT_FLOAT_EQ(params_of(plain).scale_log2, static_cast<float>(0.125 * log2_e));
  const FamilyLaunch scaled = plan("qk64 scale=0.3", {}, {1, 1, 1, 1, 1});
  EXPECT_FLOAT_EQ(params_of(scaled).scale_log2, static_cast<float>(0.3 * log2_e));
  const FamilyLaunch capped = plan("qk64 scale=0.3 softcap=20", {}, {1, 1, 1, 1, 1});
  EXPECT_FLOAT_EQ(params_of(capped).scale_log2, static_cast<float>(20 * log2_e));
  EXPECT_FLOAT_EQ(params_of(capped).tanh_scale, 0.015f);
  const FamilyLaunch zero = plan("qk64 scale=0", {}, {1, 1, 1, 1, 1});
  EXPECT_GT(params_of(zero).scale_log2, 0.0f) << "0 times a masked -inf would be NaN";
  EXPECT_LT(params_of(zero).scale_log2, 1e-30f);
}

RowInterval interval(const char* text, int64_t seqlen_q, int64_t seqlen_k) {
  const auto problem = Problem::parse(text);
  EXPECT_TRUE(problem.ok()) << text;
  return row_interval(*problem, seqlen_q, seqlen_k);
}

TEST(RowInterval, FollowsTheMasks) {
  constexpr int64_t kFar = kUnboundedDistance;
  EXPECT_EQ(interval("qk64", 5, 9), (RowInterval{-kFar, kFar}));
  EXPECT_EQ(interval("qk64 causal", 5, 9), (RowInterval{-kFar, 4}));
  EXPECT_EQ(interval("qk64 causal", 9, 5), (RowInterval{-kFar, -4}));
  EXPECT_EQ(interval("qk64 causal=top-left", 9, 5), (RowInterval{-kFar, 0}));
  EXPECT_EQ(interval("qk64 window=3,2", 5, 9), (RowInterval{1, 6}));
  EXPECT_EQ(interval("qk64 window=3,2 causal", 5, 9), (RowInterval{1, 4}));
  EXPECT_EQ(interval("qk64 window=3,* causal=top-left", 5, 9), (RowInterval{1, 0}));
  EXPECT_EQ(interval("qk64 window=9223372036854775807,9223372036854775807", 5, 9),
            (RowInterval{4 - kFar, kFar}));
}

}  // namespace
}  // namespace tilewright
