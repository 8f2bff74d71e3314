// Masks by tile lists where sequences have lengths of their own: packed, with keys in pages, in
// parts. Each sequence has lists of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "core/check.h"
#include "tests/support/emulated_session.h"
#include "tests/support/exact_weights.h"
#include "tests/support/forward_run.h"
#include "tests/support/shapes.h"

namespace tilewright::testing {
namespace {

using ::testing::HasSubstr;

class SparseServingPairs : public ::testing::TestWithParam<std::string> {};

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
  for (size_t batch = 0; batch + 1 < first_q.size(); ++batch) {
    reference::Sizes sequence = size;
    sequence.seqlen_q = first_q[batch + 1] - first_q[batch];
    sequence.seqlen_k = first_k[batch + 1] - first_k[batch];
    const int64_t row_elements = size.num_heads_q * size.head_dim_v;
    const auto out = std::span<const float>(outputs.out)
                         .subspan(static_cast<size_t>(first_q[batch] * row_elements),
                                  static_cast<size_t>(sequence.seqlen_q * row_elements));
    ASSERT_NO_FATAL_FAILURE(expect_exact_weights(problem, sequence, 0, {}, out)) << batch;
  }
}

INSTANTIATE_TEST_SUITE_P(Smoke, SparseServingPairs,
                         ::testing::Values("global={0,17,70}", "longformer=window:30,global:{5}",
                                           "bigbird=block:16,random:1", "causal+prefix=33",
                                           "chunk=50", "window=9,9,dilation:3"),
                         [](const auto& test) { return test_name(test.param); });

TEST(SparseServingSchedules, GiveTheSameBits) {
  for (const char* text :
       {"b3 hq2 hkv1 q40 k131 qk64 v64 fp16 varlen splits=3 causal+global={3,90}",
        "b3 hq2 hkv1 q40 k131 qk128 v128 bf16 varlen paged=16 bigbird=block:16"}) {
    EXPECT_EQ(verify_under_every_schedule(text), "");
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
