// Forward attention as servers need it: packed sequences, keys in pages, and keys in parts that a
// second kernel combines, on emulated devices against fp64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "core/check.h"
#include "tests/support/emulated_session.h"
#include "tests/support/forward_run.h"
#include "tests/support/shapes.h"

namespace tilewright::testing {
namespace {

using ::testing::HasSubstr;

class Serving : public ::testing::TestWithParam<std::string> {};

TEST_P(Serving, MatchesReference) { EXPECT_EQ(run_and_verify({.problem = GetParam()}), ""); }

INSTANTIATE_TEST_SUITE_P(
    Splits, Serving,
    ::testing::Values("hq2 hkv1 q1 k257 qk64 v64 fp16 splits=2",
                      "b2 hq6 hkv2 q3 k500 qk80 v48 bf16 splits=8 causal",
                      "hq2 hkv1 q67 k131 qk64 v64 fp16 splits=3 causal",
                      "hq1 hkv1 q5 k40 qk128 v128 bf16 splits=5",
                      "hq2 hkv2 q130 k60 qk64 v72 fp16 splits=4 causal",
                      "hq2 hkv2 q33 k300 qk64 v64 fp16 splits=4 window=31,5 strided",
                      "hq2 hkv1 q4 k0 qk64 v64 fp16 splits=2",
                      "hq2 hkv1 q9 k90 qk64 v64 fp16 "
                      "splits=256 softcap=20",
                      "b2 hq2 hkv1 q70 k140 qk64 v64 fp16 splits=2 layout=bhsd",
                      "b2 hq2 hkv1 q0 k9 qk64 v64 fp16 splits=2",
                      "b0 hq2 hkv1 q4 k9 qk64 v64 fp16 splits=2",
                      "b2 hq8 hkv1 q0 k9 qk64 v64 fp16 splits=2 causal"),
    [](const auto& test) { return test_name(test.param); });

INSTANTIATE_TEST_SUITE_P(
    Varlen, Serving,
    ::testing::Values("b5 hq2 hkv1 q67 k131 qk64 v64 fp16 varlen causal",
                      "b7 hq4 hkv2 q130 k70 qk80 v48 bf16 varlen causal",
                      "b3 hq2 hkv2 q33 k65 qk128 v128 fp16 varlen",
                      "b4 hq2 hkv1 q70 k140 qk64 v72 bf16 varlen window=31,5",
                      "b4 hq2 hkv1 q70 k140 qk64 v64 fp16 varlen causal=top-left window=40,*",
                      "b4 hq2 hkv1 q70 k140 qk64 v64 fp16 varlen strided softcap=15",
                      "b6 hq4 hkv1 q5 k300 qk64 v64 bf16 varlen splits=4 causal",
                      "b1 hq2 hkv1 q9 k0 qk64 v64 fp16 varlen",
                      "b2 hq2 hkv1 q0 k9 qk64 v64 fp16 varlen causal",
                      "b0 hq2 hkv1 q9 k9 qk64 v64 fp16 varlen"),
    [](const auto& test) { return test_name(test.param); });

INSTANTIATE_TEST_SUITE_P(
    Paged, Serving,
    ::testing::Values("b3 hq2 hkv1 q1 k200 qk64 v64 fp16 paged=16",
                      "b4 hq6 hkv2 q5 k131 qk80 v48 bf16 paged=16 causal",
                      "b3 hq2 hkv2 q67 k131 qk128 v128 fp16 paged=64 causal",
                      "b3 hq2 hkv1 q33 k90 qk64 v64 bf16 paged=5 window=31,5",
                      "b5 hq8 hkv1 q3 k300 qk64 v64 fp16 paged=16 splits=4 causal",
                      "b5 hq4 hkv2 q40 k70 qk64 v72 bf16 varlen paged=16 causal strided",
                      "b2 hq2 hkv1 q4 k0 qk64 v64 fp16 paged=16",
                      "b2 hq2 hkv1 q0 k9 qk64 v64 fp16 paged=16",
                      "b0 hq8 hkv1 q1 k9 qk64 v64 fp16 paged=16 splits=2"),
    [](const auto& test) { return test_name(test.param); });

// Masks by tile lists: each sequence has lists of its own.
INSTANTIATE_TEST_SUITE_P(
    Sparse, Serving,
    ::testing::Values("b5 hq2 hkv1 q67 k131 qk64 v64 fp16 varlen global={0,17,70}",
                      "b7 hq4 hkv2 q130 k70 qk80 v48 bf16 varlen longformer=window:33,global:{5}",
                      "b3 hq3 hkv1 q133 k165 qk64 v64 fp16 varlen bigbird=block:24,random:2",
                      "b4 hq2 hkv2 q70 k140 qk128 v128 fp16 varlen causal+prefix=33",
                      "b4 hq2 hkv1 q70 k140 qk64 v72 bf16 varlen chunk=50 strided",
                      "b6 hq2 hkv1 q70 k140 qk64 v64 fp16 varlen documents causal softcap=9",
                      "b5 hq2 hkv1 q150 k230 qk64 v64 fp16 varlen blocks=32",
                      "b5 hq2 hkv1 q70 k140 qk64 v64 fp16 varlen window=9,9,dilation:3",
                      "b6 hq4 hkv1 q5 k300 qk64 v64 bf16 varlen splits=4 global=9",
                      "b3 hq2 hkv1 q1 k200 qk64 v64 fp16 paged=16 longformer=window:60,global:{0}",
                      "b4 hq2 hkv1 q33 k131 qk80 v48 bf16 paged=7 documents",
                      "b3 hq8 hkv1 q3 k300 qk64 v64 fp16 paged=16 splits=4 bigbird=block:16",
                      "b5 hq4 hkv2 q40 k70 qk64 v72 bf16 varlen paged=16 blocks=17 causal",
                      "b3 hq2 hkv1 q70 k140 qk120 v128 bf16 varlen paged=16 chunk=50 strided",
                      "b1 hq2 hkv1 q9 k0 qk64 v64 fp16 varlen chunk=5",
                      "b0 hq2 hkv1 q9 k9 qk64 v64 fp16 varlen chunk=5"),
    [](const auto& test) { return test_name(test.param); });

TEST(ServingSchedules, GiveTheSameBits) {
  for (const char* problem : {"b3 hq2 hkv1 q40 k131 qk64 v64 fp16 varlen splits=3 causal",
                              "b2 hq2 hkv1 q67 k131 qk64 v64 bf16 paged=16 causal",
                              "b3 hq1 hkv1 q33 k70 qk80 v48 fp16 varlen paged=7 strided"}) {
    EXPECT_EQ(verify_under_every_schedule(problem), "");
  }
}

// Also where both are the NaN of rows that belong to no sequence.
bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// What no sequence uses is NaN and infinite in a trial; other values there change no bit.
TEST(ServingPages, UnusedOnesChangeNothing) {
  for (const char* text : {"b4 hq2 hkv1 q5 k131 qk64 v64 fp16 paged=16 causal",
                           "b4 hq8 hkv1 q1 k131 qk64 v64 bf16 paged=16",
                           "b4 hq2 hkv1 q9 k131 qk64 v48 fp16 varlen paged=7 splits=3",
                           "b3 hq2 hkv1 q9 k131 qk64 v64 fp16 paged=16 global={0,77}"}) {
    Trial trial = make_trial(text, 9);
    const TrialOutputs poisoned = outputs_of({.problem = text}, trial.inputs);
    for (std::vector<float>* tensor : {&trial.inputs.k, &trial.inputs.v}) {
      const auto unused = [](float value) { return !std::isfinite(value); };
      const auto count = std::count_if(tensor->begin(), tensor->end(), unused);
      EXPECT_GT(count, 0) << text;
      EXPECT_LT(count, static_cast<ptrdiff_t>(tensor->size())) << text;
      std::replace_if(tensor->begin(), tensor->end(), unused, 3.0F);
    }
    const TrialOutputs plain = outputs_of({.problem = text}, trial.inputs);
    EXPECT_TRUE(same_bits(poisoned.out, plain.out)) << text;
    EXPECT_TRUE(same_bits(poisoned.lse, plain.lse)) << text;
    const Result<Verdict> verdict = verify(trial.problem, trial.sizes, trial.inputs, plain);
    ASSERT_TRUE(verdict.ok()) << verdict.error().to_string();
    EXPECT_EQ(verdict->detail(), "") << text;
  }
}

// Outputs and lse of 1 to 8 parts agree to rounding; parts without a key change nothing, and rows
// without a key have none in any part.
void expect_splits_agree(const std::string& text) {
  const Problem problem = *Problem::parse(text);
  const float tolerance = problem.dtype == Dtype::kBFloat16 ? 1.6e-2f : 2e-3f;
  const reference::Sizes sizes = *trial_sizes(problem);
  const TrialTensors inputs = random_inputs(problem, sizes, 5);
  const TrialOutputs one = outputs_of({.problem = text}, inputs);
  for (int splits = 2; splits <= 8; ++splits) {
    const TrialOutputs parts =
        outputs_of({.problem = fmt::format("{} splits={}", text, splits)}, inputs);
    for (size_t i = 0; i < one.out.size(); ++i) {
      if (same_bits({&parts.out[i], 1}, {&one.out[i], 1})) continue;
      ASSERT_LE(std::abs(parts.out[i] - one.out[i]), tolerance)
          << splits << " parts, element " << i;
    }
    for (size_t i = 0; i < one.lse.size(); ++i) {
      if (same_bits({&parts.lse[i], 1}, {&one.lse[i], 1})) continue;  // -inf too
      ASSERT_LE(std::abs(parts.lse[i] - one.lse[i]), 1e-5f) << splits << " parts, row " << i;
    }
  }
}

TEST(ServingSplits, AgreeWithOne) { expect_splits_agree("hq2 hkv2 q3 k211 qk64 v48 fp16 causal"); }

TEST(ServingSplits, AgreeWithOneWhereHeadsArePacked) {
  expect_splits_agree("hq6 hkv2 q3 k211 qk64 v48 fp16 causal");
}

TEST(ServingSplits, AgreeWithOneWhereRowsAreEmpty) {
  expect_splits_agree("hq2 hkv1 q90 k70 qk64 v64 bf16 causal");
}

TEST(ServingSplits, AgreeWithOneInPages) {
  expect_splits_agree("b3 hq4 hkv1 q2 k211 qk64 v64 bf16 paged=16 causal");
}

TEST(ServingSplits, AgreeWithOneOfPackedSequences) {
  expect_splits_agree("b5 hq2 hkv1 q9 k211 qk80 v48 fp16 varlen causal");
}

TEST(ServingBadInput, IsNamedBeforeAnyLaunch) {
  Session& session = shared_session("emulated:a100");
  const auto kernel = session.prepare(*Problem::parse("hq2 hkv1 qk64 v64 fp16 varlen"));
  ASSERT_TRUE(kernel.ok()) << kernel.error().to_string();
  const auto no_totals = kernel->plan({.batch = 2, .seqlen_q = 8, .seqlen_k = 8});
  ASSERT_FALSE(no_totals.ok());
  EXPECT_THAT(no_totals.error().to_string(), HasSubstr("total_q"));
  const auto plan =
      kernel->plan({.batch = 2, .seqlen_q = 8, .seqlen_k = 8, .total_q = 11, .total_k = 13});
  ASSERT_TRUE(plan.ok()) << plan.error().to_string();
  LaunchTensors tensors;
  tensors.cu_seqlens_k = {.data = reinterpret_cast<void*>(uintptr_t{256}),
                          .dtype = Dtype::kInt32,
                          .rank = 1,
                          .shape = {2},
                          .strides = {1}};
  const Status status = kernel->launch(nullptr, *plan, tensors);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().to_string(), HasSubstr("tensor cu_seqlens_q is missing"));
  EXPECT_THAT(status.error().to_string(),
              HasSubstr("tensor cu_seqlens_k has shape [2], the plan needs [3]"));
  const auto too_many = session.prepare(*Problem::parse("hq2 hkv1 qk64 fp16 splits=1000"));
  ASSERT_FALSE(too_many.ok());
  EXPECT_THAT(too_many.error().to_string(), HasSubstr("splits=1000 is more than 256"));
}

}  // namespace
}  // namespace tilewright::testing
