// The family backward_sm80 on emulated devices against fp64, within the bounds of
// reference/gradient_bound.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/emulated_session.h"
#include "tests/support/forward_run.h"
#include "tests/support/shapes.h"

namespace tilewright::testing {
namespace {

using ::testing::HasSubstr;

class Backward : public ::testing::TestWithParam<std::string> {};

TEST_P(Backward, MatchesReference) {
  EXPECT_EQ(run_and_verify({.problem = "backward " + GetParam()}), "");
}

INSTANTIATE_TEST_SUITE_P(Smoke, Backward, ::testing::ValuesIn(backward_smoke()),
                         [](const auto& test) { return test_name(test.param); });

// The problems that exercise every config field: a pipeline of one and two stages, warps that share
// keys, both masks, element-wise copies.
const std::vector<std::string>& schedule_problems() {
  static const std::vector<std::string> problems = {
      "hq2 hkv1 q67 k131 qk64 v64 fp16 causal",
      "hq2 hkv1 q35 k70 qk256 v256 bf16 causal",
      "hq3 hkv1 q49 k33 qk136 v40 fp16 strided softcap=9",
  };
  return problems;
}

struct ScheduleCase {
  const char* name;
  EmulatorSettings settings;
};

class BackwardSchedules : public ::testing::TestWithParam<std::tuple<ScheduleCase, std::string>> {};

TEST_P(BackwardSchedules, MatchesReference) {
  const auto& [schedule, problem] = GetParam();
  const ScopedEmulatorSettings scope(schedule.settings);
  EXPECT_EQ(run_and_verify({.problem = "backward " + problem}), "");
}

INSTANTIATE_TEST_SUITE_P(
    Smoke, BackwardSchedules,
    ::testing::Combine(::testing::Values(ScheduleCase{"eager",
                                                      {.observers = TW_EMULATOR_OBSERVERS_FULL}},
                                         ScheduleCase{"lazy",
                                                      {.schedule = TW_EMULATOR_SCHEDULE_LAZY,
                                                       .observers = TW_EMULATOR_OBSERVERS_FULL}},
                                         ScheduleCase{"random",
                                                      {.schedule = TW_EMULATOR_SCHEDULE_RANDOM,
                                                       .seed = 2,
                                                       .observers = TW_EMULATOR_OBSERVERS_FULL,
                                                       .host_threads = 2}}),
                       ::testing::ValuesIn(schedule_problems())),
    [](const auto& test) {
      return std::string(std::get<0>(test.param).name) + "_" + test_name(std::get<1>(test.param));
    });

// Less shared memory, and a Hopper device.
class BackwardDevices : public ::testing::TestWithParam<std::tuple<const char*, std::string>> {};

TEST_P(BackwardDevices, MatchesReference) {
  const auto& [device, problem] = GetParam();
  EXPECT_EQ(run_and_verify(
                {.device = std::string("emulated:") + device, .problem = "backward " + problem}),
            "");
}

INSTANTIATE_TEST_SUITE_P(Smoke, BackwardDevices,
                         ::testing::Combine(::testing::Values("h100", "rtx3090", "rtx4090"),
                                            ::testing::Values("hq2 hkv1 q35 k67 qk64 v64 fp16",
                                                              "hq1 hkv1 q35 k67 qk256 v256 bf16 "
                                                              "causal")),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" +
                                  test_name(std::get<1>(test.param));
                         });

struct Case {
  std::string text;
  Problem problem;
  reference::Sizes sizes;
  TrialTensors inputs;
};

Case make_case(const std::string& text, uint64_t seed, float q_factor = 1.0F) {
  Case made{text, *Problem::parse(text), {}, {}};
  made.sizes = *trial_sizes(made.problem);
  made.inputs = random_inputs(made.problem, made.sizes, seed);
  for (float& value : made.inputs.q) value *= q_factor;
  EXPECT_TRUE(complete_inputs(made.problem, made.sizes, made.inputs).ok());
  return made;
}

// Whatever the order of blocks, of copies and the number of host threads: the same bits.
TEST(BackwardDeterminism, TwentySchedulesGiveTheSameBits) {
  for (const std::string& problem : schedule_problems()) {
    const Case test = make_case("backward " + problem, 3);
    const TrialOutputs first = outputs_of({.problem = test.text}, test.inputs);
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const ScopedEmulatorSettings scope({.schedule = TW_EMULATOR_SCHEDULE_RANDOM,
                                          .seed = seed,
                                          .host_threads = static_cast<int>(1 + seed % 4)});
      const TrialOutputs again = outputs_of({.problem = test.text}, test.inputs);
      EXPECT_EQ(first.dq, again.dq) << test.text << ", seed " << seed;
      EXPECT_EQ(first.dk, again.dk) << test.text << ", seed " << seed;
      EXPECT_EQ(first.dv, again.dv) << test.text << ", seed " << seed;
    }
  }
}

void expect_right(const Case& test, const TrialOutputs& outputs) {
  const Result<Verdict> verdict = verify(test.problem, test.sizes, test.inputs, outputs);
  ASSERT_TRUE(verdict.ok()) << verdict.error().to_string();
  EXPECT_TRUE(verdict->ok()) << test.text << ": " << verdict->detail();
}

// Every score is near -1000, so a key or query beyond the tail, whose score is 0, would weigh
// e^1000.
TEST(BackwardExtremes, LseFarBelowZeroWithRaggedTails) {
  for (const char* text : {"backward hq1 hkv1 q35 k67 qk16 v16 fp16 scale=1",
                           "backward hq2 hkv1 q67 k35 qk16 v16 bf16 scale=1 causal",
                           "backward hq1 hkv1 q19 k37 qk256 v256 bf16 scale=1 window=9,3"}) {
    Case test = make_case(text, 11);
    const auto width = static_cast<size_t>(test.sizes.head_dim_qk);
    for (size_t i = 0; i < test.inputs.q.size(); i += width) test.inputs.q[i] = -32.0F;
    for (size_t i = 0; i < test.inputs.k.size(); i += width) test.inputs.k[i] = 32.0F;
    ASSERT_TRUE(complete_inputs(test.problem, test.sizes, test.inputs).ok());
    ASSERT_LT(test.inputs.lse[0], -900.0F);
    expect_right(test, outputs_of({.problem = text}, test.inputs));
  }
}

// Scores of hundreds: weights are 0 or 1 but for a few.
TEST(BackwardExtremes, LargeScores) {
  for (const char* text : {"backward hq1 hkv1 q35 k67 qk64 v64 fp16 causal",
                           "backward hq1 hkv1 q35 k67 qk64 v64 bf16 softcap=30"}) {
    const Case test = make_case(text, 5, 64.0F);
    expect_right(test, outputs_of({.problem = text}, test.inputs));
  }
}

// Rows that see no key, and keys that no row sees, get gradient 0, not merely a small one.
TEST(BackwardExtremes, NothingSeenIsExactlyZero) {
  const Case rows = make_case("backward hq2 hkv1 q67 k35 qk64 v64 fp16 causal", 7);
  const TrialOutputs of_rows = outputs_of({.problem = rows.text}, rows.inputs);
  const auto row_end = of_rows.dq.begin() + 32 * 2 * 64;
  EXPECT_TRUE(std::all_of(of_rows.dq.begin(), row_end, [](float x) { return x == 0.0F; }));
  EXPECT_FALSE(std::all_of(row_end, of_rows.dq.end(), [](float x) { return x == 0.0F; }));

  const Case keys = make_case("backward hq2 hkv1 q35 k67 qk64 v64 fp16 causal=top-left", 7);
  const TrialOutputs of_keys = outputs_of({.problem = keys.text}, keys.inputs);
  for (const std::vector<float>* gradient : {&of_keys.dk, &of_keys.dv}) {
    EXPECT_TRUE(std::all_of(gradient->begin() + 35 * 64, gradient->end(),
                            [](float x) { return x == 0.0F; }));
  }
}

// A group's dK and dV are the sums over its heads; with one key head per query head they come
// apart.
TEST(BackwardGroups, SumOverHeads) {
  const Case grouped = make_case("backward hq3 hkv1 q35 k67 qk64 v64 fp16 causal", 9);
  const TrialOutputs sums = outputs_of({.problem = grouped.text}, grouped.inputs);
  Case apart = grouped;
  apart.text = "backward hq3 hkv3 q35 k67 qk64 v64 fp16 causal";
  const auto repeat_heads = [](const std::vector<float>& rows) {
    std::vector<float> repeated;
    for (size_t row = 0; row < rows.size(); row += 64) {
      for (int head = 0; head < 3; ++head) {
        repeated.insert(repeated.end(), rows.begin() + static_cast<ptrdiff_t>(row),
                        rows.begin() + static_cast<ptrdiff_t>(row + 64));
      }
    }
    return repeated;
  };
  apart.inputs.k = repeat_heads(grouped.inputs.k);
  apart.inputs.v = repeat_heads(grouped.inputs.v);
  const TrialOutputs parts = outputs_of({.problem = apart.text}, apart.inputs);
  EXPECT_EQ(sums.dq, parts.dq);
  for (size_t i = 0; i < sums.dk.size(); ++i) {
    const size_t first = i / 64 * 192 + i % 64;
    const float dk = parts.dk[first] + parts.dk[first + 64] + parts.dk[first + 128];
    const float dv = parts.dv[first] + parts.dv[first + 64] + parts.dv[first + 128];
    ASSERT_NEAR(sums.dk[i], dk, 4e-3F) << i;
    ASSERT_NEAR(sums.dv[i], dv, 4e-3F) << i;
  }
}

// A launch with wrong tensors says which, and nothing has run.
class BackwardBadInput : public ::testing::Test {
 protected:
  void SetUp() override {
    kernel_ = *shared_session("emulated:a100")
                   .prepare(*Problem::parse("backward hq2 hkv1 qk64 v48 fp16"));
    plan_ = *kernel_->plan({.batch = 1, .seqlen_q = 5, .seqlen_k = 7});
    for (const TensorRequirement& requirement : plan_.tensors) {
      Tensor& tensor = named(requirement.name);
      tensor.data = reinterpret_cast<void*>(0x1000);  // never read
      tensor.dtype = requirement.dtype;
      tensor.rank = static_cast<int>(requirement.shape.size());
      int64_t stride = 1;
      for (size_t dim = requirement.shape.size(); dim-- > 0;) {
        tensor.shape[dim] = requirement.shape[dim];
        tensor.strides[dim] = stride;
        stride *= requirement.shape[dim];
      }
    }
    tensors_.workspace = reinterpret_cast<void*>(0x1000);
  }

  Tensor& named(const std::string& name) {
    const std::pair<const char*, Tensor*> tensors[] = {
        {"q", &tensors_.q},     {"k", &tensors_.k},     {"v", &tensors_.v},
        {"out", &tensors_.out}, {"lse", &tensors_.lse}, {"dout", &tensors_.dout},
        {"dq", &tensors_.dq},   {"dk", &tensors_.dk},   {"dv", &tensors_.dv}};
    for (const auto& [each, tensor] : tensors) {
      if (name == each) return *tensor;
    }
    ADD_FAILURE() << name;
    return tensors_.q;
  }

  // A launch would fault on the address 0x1000; a refusal comes before it.
  void expect_refused(const std::string& what) {
    const Status status = kernel_->launch(nullptr, plan_, tensors_);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().to_string(), HasSubstr(what));
    EXPECT_TRUE(shared_session("emulated:a100").synchronize().ok());
  }

  std::optional<Kernel> kernel_;
  LaunchPlan plan_;
  LaunchTensors tensors_;
};

TEST_F(BackwardBadInput, MissingLse) {
  tensors_.lse = {};
  expect_refused("tensor lse is missing");
}

TEST_F(BackwardBadInput, MissingDout) {
  tensors_.dout.data = nullptr;
  expect_refused("tensor dout is missing");
}

TEST_F(BackwardBadInput, DoutUnlikeOut) {
  tensors_.dout.shape[3] = 64;
  expect_refused("tensor dout has shape [1, 5, 2, 64], the plan needs [1, 5, 2, 48]");
}

TEST_F(BackwardBadInput, DoutOfAnotherType) {
  tensors_.dout.dtype = Dtype::kFloat32;
  expect_refused("tensor dout is of type fp32, the kernel needs fp16");
}

TEST_F(BackwardBadInput, GradientsThatOverlap) {
  tensors_.dk.strides[1] = 0;
  expect_refused("tensor dk has stride 0 at dim 1 of extent 7");
}

TEST_F(BackwardBadInput, MissingWorkspace) {
  tensors_.workspace = nullptr;
  expect_refused("workspace");
}

TEST(BackwardPlan, HasThreeSteps) {
  const auto kernel =
      shared_session("emulated:a100").prepare(*Problem::parse("backward hq4 hkv2 qk64 v64 fp16"));
  ASSERT_TRUE(kernel.ok()) << kernel.error().to_string();
  const auto plan = kernel->plan({.batch = 3, .seqlen_q = 100, .seqlen_k = 130});
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->steps.size(), 3u);
  EXPECT_EQ(plan->steps[0].entry, "tw_backward_preprocess");
  EXPECT_EQ(plan->steps[1].entry, "tw_backward_dkdv");
  EXPECT_EQ(plan->steps[1].grid.x, 3u * 2 * 3);
  EXPECT_EQ(plan->steps[2].entry, "tw_backward_dq");
  EXPECT_EQ(plan->steps[2].grid.x, 3u * 4 * 2);
  // Two floats for each of 128 rows.
  EXPECT_EQ(plan->workspace_bytes, 3 * 4 * 128 * 8);
  // No key, but dQ must be 0; no query, but dK and dV must.
  EXPECT_EQ(kernel->plan({.batch = 1, .seqlen_q = 5, .seqlen_k = 0})->steps.size(), 2u);
  EXPECT_EQ(kernel->plan({.batch = 1, .seqlen_q = 0, .seqlen_k = 5})->steps.size(), 1u);
  EXPECT_TRUE(kernel->plan({.batch = 0, .seqlen_q = 5, .seqlen_k = 5})->empty());
  EXPECT_FALSE(kernel->plan({.batch = 1, .seqlen_q = int64_t{1} << 31, .seqlen_k = 5}).ok());
}

}  // namespace
}  // namespace tilewright::testing
