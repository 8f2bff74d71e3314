// Query heads of a group that share the rows of a tile: right against fp64, the same bits as head
// by head, and one pass over K and V for the group.
#include <gtest/gtest.h>

#include <bit>

#include "core/check.h"
#include "generator/generator.h"
#include "runtime/session_access.h"
#include "tests/support/emulated_session.h"
#include "tests/support/forward_run.h"
#include "tests/support/shapes.h"

namespace tilewright::testing {
namespace {

using attention::ForwardSm80Config;

const std::string kDevice = "emulated:a100";

// The default config of a problem, which must pack heads.
ForwardSm80Config packed_config(const std::string& text) {
  const Arch& arch = SessionAccess::device(shared_session(kDevice)).arch();
  const Result<Choice> choice = choose_config(*Problem::parse(text), arch);
  TW_CHECK(choice.ok(), "{}", choice.error().to_string());
  const auto config = std::get<ForwardSm80Config>(choice->config);
  EXPECT_GT(config.packed_heads, 1) << text;
  return config;
}

class PackedHeads : public ::testing::TestWithParam<std::string> {};

TEST_P(PackedHeads, MatchesReference) {
  EXPECT_EQ(run_and_verify({.problem = GetParam(), .config = packed_config(GetParam())}), "");
}

INSTANTIATE_TEST_SUITE_P(
    Smoke, PackedHeads,
    ::testing::Values("hq3 hkv1 q1 k257 qk64 v64 fp16", "b2 hq10 hkv2 q3 k131 qk80 v48 bf16 causal",
                      "b2 hq14 hkv2 q17 k67 qk64 v64 fp16 causal",
                      "hq12 hkv1 q5 k90 qk128 v128 bf16 window=31,5",
                      "b2 hq71 hkv1 q1 k100 qk64 v64 fp16",
                      "b2 hq6 hkv2 q11 k9 qk64 v72 fp16 causal",
                      "hq8 hkv1 q16 k300 qk64 v64 bf16 causal=top-left window=40,*",
                      "b2 hq6 hkv2 q9 k90 qk64 v64 fp16 strided softcap=20 causal",
                      "b2 hq4 hkv2 q7 k140 qk64 v64 fp16 layout=bhsd",
                      "b2 hq10 hkv2 q2 k0 qk64 v64 fp16", "hq3 hkv1 q70 k70 qk64 v64 bf16 causal"),
    [](const auto& test) { return test_name(test.param); });

INSTANTIATE_TEST_SUITE_P(
    Serving, PackedHeads,
    ::testing::Values("b5 hq14 hkv2 q17 k131 qk64 v64 fp16 varlen causal",
                      "b6 hq5 hkv1 q9 k200 qk80 v48 bf16 varlen window=31,5 strided",
                      "b3 hq7 hkv1 q1 k200 qk64 v64 fp16 paged=16",
                      "b4 hq6 hkv2 q5 k131 qk80 v48 bf16 paged=16 causal splits=3",
                      "b5 hq12 hkv4 q13 k90 qk64 v64 fp16 varlen paged=5 causal splits=4",
                      "hq8 hkv1 q1 k500 qk128 v128 bf16 splits=8",
                      "b2 hq6 hkv2 q12 k200 qk64 v64 fp16 causal splits=5"),
    [](const auto& test) { return test_name(test.param); });

TEST(PackedHeadsLengths, MatchReference) {
  for (const int group : {3, 5, 7, 8}) {
    for (int seqlen_q = 1; seqlen_q <= 17; ++seqlen_q) {
      EXPECT_EQ(run_and_verify({.problem = fmt::format("hq{} hkv1 q{} k{} qk64 v64 fp16 causal",
                                                       group, seqlen_q, 50 + seqlen_q)}),
                "");
    }
  }
}

// Half of this device's L2 (3 MiB) holds K and V of two of the three groups: two sections of
// blocks, the last one short.
TEST(PackedHeadsOrder, TakesGroupsInSections) {
  EXPECT_EQ(run_and_verify(
                {.device = "emulated:rtx3090", .problem = "hq12 hkv3 q17 k2500 qk128 v128 fp16"}),
            "");
}

// Rows of no sequence are still NaN, which equals nothing but its bits.
std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// What other rows of a tile see changes nothing in a row: the bits are those of tiles of one head.
TEST(PackedHeadsBits, AreThoseOfSingleHeads) {
  for (const char* text : {"b2 hq6 hkv2 q5 k211 qk64 v48 fp16 causal",
                           "b2 hq7 hkv1 q13 k150 qk80 v80 bf16 window=31,5 softcap=9",
                           "b3 hq6 hkv2 q9 k131 qk64 v64 fp16 varlen paged=16 causal strided",
                           "hq8 hkv1 q3 k300 qk64 v64 fp16 splits=3"}) {
    const Problem problem = *Problem::parse(text);
    const TrialTensors inputs = random_inputs(problem, *trial_sizes(problem), 5);
    ForwardSm80Config config = packed_config(text);
    const TrialOutputs packed = outputs_of({.problem = text, .config = config}, inputs);
    config.packed_heads = 1;
    const TrialOutputs single = outputs_of({.problem = text, .config = config}, inputs);
    EXPECT_EQ(bits_of(packed.out), bits_of(single.out)) << text;
    EXPECT_EQ(bits_of(packed.lse), bits_of(single.lse)) << text;
  }
}

struct Cost {
  uint64_t blocks = 0, matrix = 0, copies = 0;
};

Cost cost_of(const std::string& text, const ForwardSm80Config& config) {
  const Problem problem = *Problem::parse(text);
  const TrialTensors inputs = random_inputs(problem, *trial_sizes(problem), 1);
  reset_executed_instructions();
  const TrialOutputs outputs =
      outputs_of({.problem = text, .options = {}, .config = config}, inputs);
  return {outputs.plan.steps.at(0).grid.x, executed_instructions("mma.sync"),
          executed_instructions("cp.async")};
}

// Eight heads with one query each: an eighth of the blocks, of the matrix instructions and of the
// copies, which are those of one pass over K and V.
TEST(PackedHeadsCost, IsThatOfOneHead) {
  const std::string keys = " q1 k640 qk64 v64 fp16";
  ForwardSm80Config config = packed_config("b3 hq16 hkv2" + keys);
  EXPECT_EQ(config.packed_heads, 8);
  const Cost packed = cost_of("b3 hq16 hkv2" + keys, config);
  config.packed_heads = 1;
  const Cost single = cost_of("b3 hq16 hkv2" + keys, config);
  const Cost one_head = cost_of("b3 hq2 hkv2" + keys, config);
  EXPECT_EQ(packed.blocks, 3u * 2);
  EXPECT_EQ(packed.matrix,
            packed.blocks * (640 / static_cast<uint64_t>(config.tile_n)) * mma_per_tile(config));
  EXPECT_GT(packed.copies, 0u);
  EXPECT_EQ(packed.copies, one_head.copies);
  EXPECT_EQ(single.blocks, 8 * packed.blocks);
  EXPECT_EQ(single.matrix, 8 * packed.matrix);
  EXPECT_EQ(single.copies, 8 * packed.copies);
}

// Five heads with 17 queries are 85 rows: two tiles of 64 rather than five.
TEST(PackedHeadsCost, IsThatOfTheTilesThatTheRowsFill) {
  const std::string text = "hq5 hkv1 q17 k256 qk64 v64 fp16";
  ForwardSm80Config config = packed_config(text);
  ASSERT_EQ(config.tile_m, 64);
  const Cost packed = cost_of(text, config);
  config.packed_heads = 1;
  const Cost single = cost_of(text, config);
  EXPECT_EQ(packed.blocks, 2u);
  EXPECT_EQ(single.blocks, 5u);
  EXPECT_EQ(5 * packed.matrix, 2 * single.matrix);
  EXPECT_EQ(5 * packed.copies, 2 * single.copies);
}

class PackedHeadsSchedules : public ::testing::TestWithParam<std::string> {};

// A sample of the packed candidates; all of them are in level standard.
TEST_P(PackedHeadsSchedules, SampledCandidatesAreRight) {
  EXPECT_EQ(verify_packed_candidates(kDevice, GetParam(), 16), "");
}

INSTANTIATE_TEST_SUITE_P(Smoke, PackedHeadsSchedules,
                         ::testing::Values("hq3 hkv1 q5 k131 qk64 v64 fp16 causal",
                                           "b2 hq7 hkv1 q2 k70 qk64 v64 bf16 varlen paged=16"),
                         [](const auto& test) { return test_name(test.param); });

}  // namespace
}  // namespace tilewright::testing
