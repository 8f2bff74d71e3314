// Masks by tile lists where sequences have lengths of their own: packed, with keys in pages, in
// parts. Each sequence has lists of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/check.h"
#include "reference/visibility.h"
#include "tests/support/emulated_session.h"
#include "tests/support/forward_run.h"
#include "tests/support/shapes.h"

namespace tilewright::testing {
namespace {

using ::testing::HasSubstr;

class SparseServing : public ::testing::TestWithParam<std::string> {};

TEST_P(SparseServing, MatchesReference) { EXPECT_EQ(run_and_verify({.problem = GetParam()}), ""); }

INSTANTIATE_TEST_SUITE_P(
    Smoke, SparseServing,
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
                      "b1 hq2 hkv1 q9 k0 qk64 v64 fp16 varlen chunk=5",
                      "b0 hq2 hkv1 q9 k9 qk64 v64 fp16 varlen chunk=5"),
    [](const auto& test) { return test_name(test.param); });

class SparseServingPairs : public ::testing::TestWithParam<std::string> {};

// With Q = 0 and the key's place in its sequence as V, the output is the weights: exactly 0 where
// hidden, 1/n where one of n is visible.
TEST_P(SparseServingPairs, ShowExactlyTheVisibleKeys) {
  const std::string text = "b6 hq2 hkv1 q77 k131 qk8 v136 fp16 varlen " + GetParam();
  const Problem problem = *Problem::parse(text);
  const reference::Sizes size = *trial_sizes(problem);
  TrialTensors inputs = random_inputs(problem, size, 3);
  std::fill(inputs.q.begin(), inputs.q.end(), 0.0F);
  std::fill(inputs.v.begin(), inputs.v.end(), 0.0F);
  const auto& first_q = inputs.cu_seqlens_q;
  const auto& first_k = inputs.cu_seqlens_k;
  int empty = 0;
  for (size_t batch = 0; batch + 1 < first_k.size(); ++batch) {
    empty += first_q[batch] == first_q[batch + 1] || first_k[batch] == first_k[batch + 1] ? 1 : 0;
    for (int64_t row = first_k[batch]; row < first_k[batch + 1]; ++row) {
      inputs.v[static_cast<size_t>(row * size.head_dim_v + row - first_k[batch])] = 1.0F;
    }
  }
  EXPECT_GT(empty, 0) << "no sequence is empty";
  const TrialOutputs outputs = outputs_of({.problem = text}, inputs);
  size_t element = 0;
  for (size_t batch = 0; batch + 1 < first_q.size(); ++batch) {
    const int64_t queries = first_q[batch + 1] - first_q[batch];
    const int64_t keys = first_k[batch + 1] - first_k[batch];
    for (int64_t query = 0; query < queries; ++query) {
      for (int64_t head = 0; head < size.num_heads_q; ++head) {
        const auto visible = reference::make_visibility(problem, queries, keys, {0, head});
        ASSERT_TRUE(visible.ok()) << visible.error().message;
        int64_t count = 0;
        for (int64_t key = 0; key < keys; ++key) count += (*visible)(query, key) ? 1 : 0;
        for (int64_t key = 0; key < size.head_dim_v; ++key, ++element) {
          const float weight = outputs.out[element];
          if (key >= keys || !(*visible)(query, key)) {
            ASSERT_EQ(weight, 0.0F) << text << ": sequence " << batch << ", query " << query;
          } else {
            ASSERT_NEAR(weight * static_cast<float>(count), 1.0F, 0.002F)
                << text << ": sequence " << batch << ", query " << query << ", key " << key;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Smoke, SparseServingPairs,
                         ::testing::Values("global={0,17,70}", "longformer=window:30,global:{5}",
                                           "bigbird=block:16,random:1", "causal+prefix=33",
                                           "chunk=50", "window=9,9,dilation:3"),
                         [](const auto& test) { return test_name(test.param); });

TEST(SparseServingSchedules, GiveTheSameBits) {
  for (const EmulatorSettings& settings : {EmulatorSettings{.schedule = TW_EMULATOR_SCHEDULE_EAGER,
                                          .observers = TW_EMULATOR_OBSERVERS_FULL},
                                           EmulatorSettings{.schedule = TW_EMULATOR_SCHEDULE_LAZY,
                                           .observers = TW_EMULATOR_OBSERVERS_FULL},
                                           EmulatorSettings{.schedule = TW_EMULATOR_SCHEDULE_RANDOM,
                                           .seed = 3,
                                           .observers = TW_EMULATOR_OBSERVERS_FULL,
                                           .host_threads = 2}}) {
    const ScopedEmulatorSettings scope(settings);
    for (const char* text :
         {"b3 hq2 hkv1 q40 k131 qk64 v64 fp16 varlen splits=3 causal+global={3,90}",
          "b3 hq2 hkv1 q40 k131 qk128 v128 bf16 varlen paged=16 bigbird=block:16"}) {
      EXPECT_EQ(run_and_verify({.problem = text, .options = {.gaps = true, .repeat = 2}}), "");
    }
  }
}

// What make_schedule and a launch find wrong with the lengths of a schedule.
TEST(SparseServingErrors, NameTheLengths) {
  Session& session = shared_session("emulated:a100");
  const Result<Kernel> kernel =
      session.prepare(*Problem::parse("hq2 hkv1 qk64 v64 fp16 varlen chunk=9"));
  ASSERT_TRUE(kernel.ok()) << kernel.error().to_string();
  const Shape shape = {.batch = 2, .seqlen_q = 8, .seqlen_k = 8, .total_q = 11, .total_k = 13};
  const auto message = [&](const Kernel& of, const Shape& plan, const MaskData& data) {
    const Result<Schedule> schedule = of.make_schedule(plan, data);
    return schedule.ok() ? std::string("accepted") : schedule.error().message;
  };
  const std::vector<int32_t> queries = {0, 8, 11}, keys = {0, 5, 13}, long_keys = {0, 9, 13};
  EXPECT_EQ(message(*kernel, shape, {}), "cu_seqlens_q of the mask's data has 0 numbers, not 3");
  EXPECT_EQ(message(*kernel, shape, {.cu_seqlens_q = queries}),
            "cu_seqlens_k of the mask's data has 0 numbers, not 3");
  EXPECT_THAT(message(*kernel, shape, {.cu_seqlens_q = queries, .cu_seqlens_k = long_keys}),
              HasSubstr("cu_seqlens_k[1] = 9 makes a sequence of 9 rows"));
  const MaskData good = {.cu_seqlens_q = queries, .cu_seqlens_k = keys};
  EXPECT_EQ(message(*kernel, shape, good), "accepted");

  const Result<LaunchPlan> plan = kernel->plan(shape);
  ASSERT_TRUE(plan.ok()) << plan.error().to_string();
  ScheduleLayout shared = kernel->make_schedule(shape, good)->layout;
  EXPECT_EQ(shared.num_batches, 2);
  shared.num_batches = 1;
  void* const anywhere = reinterpret_cast<void*>(uintptr_t{256});
  const Status status = kernel->launch(nullptr, *plan, {.schedule = {anywhere, shared}});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().to_string(),
              HasSubstr("the schedule has lists for 1 batches, the plan has 2"));

  const Result<Kernel> paged =
      session.prepare(*Problem::parse("hq2 hkv1 qk64 v64 fp16 paged=16 chunk=9"));
  ASSERT_TRUE(paged.ok()) << paged.error().to_string();
  const std::vector<int32_t> used = {3, 9};
  EXPECT_EQ(message(*paged, {.batch = 2, .seqlen_q = 8, .seqlen_k = 8, .num_pages = 4},
                    {.seqused_k = used}),
            "seqused_k[1] = 9 keys, the plan's longest sequence has 8");
}

}  // namespace
}  // namespace tilewright::testing
