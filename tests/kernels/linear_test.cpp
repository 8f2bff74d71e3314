// Linear attention on emulated devices against fp64: chunked forward and decoder step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/check.h"
#include "core/half.h"
#include "generator/generator.h"
#include "tests/support/emulated_session.h"
#include "tests/support/forward_run.h"
#include "tests/support/shapes.h"

namespace tilewright::testing {
namespace {

using ::testing::HasSubstr;

class Linear : public ::testing::TestWithParam<std::string> {};

TEST_P(Linear, MatchesReference) { EXPECT_EQ(run_and_verify({.problem = GetParam()}), ""); }

INSTANTIATE_TEST_SUITE_P(
    Forward, Linear,
    ::testing::Values(
        "linear-forward hq1 hkv1 q1 k1 qk8 v8 fp16 feature=elu1 causal",
        "linear-forward hq2 hkv1 q67 k131 qk64 v64 fp16 feature=elu1",
        "linear-forward b2 hq4 hkv2 q300 k300 qk64 v64 bf16 feature=elu1 causal",
        "linear-forward hq2 hkv1 q129 k300 qk80 v48 fp16 feature=elu1 causal",
        "linear-forward hq2 hkv1 q300 k129 qk40 v24 bf16 feature=elu1 causal",
        "linear-forward hq2 hkv2 q150 k90 qk24 v136 fp16 feature=elu1 causal=top-left",
        "linear-forward hq1 hkv1 q70 k70 qk256 v256 fp16 feature=elu1 causal",
        "linear-forward hq2 hkv1 q100 k290 qk128 v128 bf16 feature=identity causal",
        "linear-forward hq2 hkv1 q65 k129 qk64 v72 fp16 feature=identity scale=0.1",
        "linear-forward hq2 hkv1 q66 k66 qk64 v64 bf16 feature=elu1 causal strided",
        "linear-forward hq2 hkv1 q66 k66 qk64 v64 fp16 causal layout=bhsd",
        "linear-forward hq2 hkv1 q300 k129 qk40 v24 bf16 feature=identity causal",
        "linear-forward hq2 hkv2 q5 k0 qk64 v64 fp16 feature=elu1",
        "linear-forward hq2 hkv2 q5 k0 qk64 v64 bf16 feature=identity causal",
        "linear-forward b0 hq2 hkv2 q5 k9 qk64 v64 fp16 feature=elu1",
        "linear-forward hq2 hkv2 q0 k9 qk64 v64 fp16 feature=elu1"),
    [](const auto& test) { return test_name(test.param); });

INSTANTIATE_TEST_SUITE_P(
    Step, Linear,
    ::testing::Values("linear-step hq1 hkv1 q1 k1 qk8 v8 fp16 feature=elu1",
                      "linear-step b0 hq4 hkv4 q1 k1 qk64 v64 bf16 feature=elu1",
                      "linear-step b3 hq4 hkv4 q1 k1 qk64 v64 bf16 feature=elu1",
                      "linear-step b2 hq14 hkv2 q1 k1 qk80 v48 fp16 feature=elu1",
                      "linear-step b2 hq6 hkv2 q1 k1 qk128 v40 bf16 feature=identity strided",
                      "linear-step hq2 hkv1 q1 k1 qk256 v256 fp16 feature=elu1 scale=0.5"),
    [](const auto& test) { return test_name(test.param); });

TEST(LinearSchedules, GiveTheSameBits) {
  for (const char* problem :
       {"linear-forward hq2 hkv1 q67 k200 qk64 v64 fp16 causal",
        "linear-forward b2 hq3 hkv1 q33 k150 qk40 v24 bf16 feature=identity",
        "linear-forward hq2 hkv1 q66 k131 qk24 v72 fp16 feature=identity causal=top-left strided",
        "linear-step b2 hq3 hkv1 q1 k1 qk64 v64 bf16",
        "linear-step hq2 hkv2 q1 k1 qk40 v24 fp16 feature=identity strided"}) {
    EXPECT_EQ(verify_under_every_schedule(problem), "");
  }
}

// Every candidate, with and without a state before.
TEST(LinearCandidates, AreRight) {
  const Arch arch = *arch_from_target("sm_80");
  for (const char* text : {"linear-forward hq2 hkv1 q150 k310 qk40 v80 fp16 causal",
                           "linear-forward hq2 hkv1 q30 k310 qk40 v80 bf16 feature=identity",
                           "linear-step b2 hq3 hkv1 q1 k1 qk40 v80 fp16"}) {
    const auto all = candidates(*Problem::parse(text), arch);
    EXPECT_GE(all.size(), 3u);
    for (const AnyConfig& config : all) {
      EXPECT_EQ(run_and_verify({.problem = text, .config = config}), "");
    }
  }
}

// Rows [first, first + count) of contiguous [1, rows, heads, dim] values.
std::vector<float> rows(const std::vector<float>& values, int64_t first, int64_t count,
                        int64_t row_elements) {
  const auto begin = values.begin() + static_cast<ptrdiff_t>(first * row_elements);
  return {begin, begin + static_cast<ptrdiff_t>(count * row_elements)};
}

void expect_right(const Trial& test, const TrialOutputs& outputs) {
  const Result<Verdict> verdict = verify(test.problem, test.sizes, test.inputs, outputs);
  ASSERT_TRUE(verdict.ok()) << verdict.error().to_string();
  EXPECT_TRUE(verdict->ok()) << verdict->detail();
}

TEST(LinearState, ForwardGoesOnFromOne) {
  for (const char* text : {"linear-forward hq4 hkv2 q90 k90 qk64 v48 fp16 causal",
                           "linear-forward hq4 hkv2 q90 k90 qk64 v48 fp16 feature=identity"}) {
    Trial test = make_trial(text, 3);
    add_random_state(test.problem, test.sizes, 3, test.inputs);
    expect_right(test, outputs_of({.problem = text}, test.inputs));
  }
}

class LinearCarriedState : public ::testing::TestWithParam<std::string> {};

// Two halves with the state carried equal one whole, and so do steps one by one (facts 9 and 10).
TEST_P(LinearCarriedState, HalvesAndStepsEqualTheWhole) {
  constexpr int64_t kHalf = 37;
  const auto forward_text = [](int64_t length) {
    return fmt::format("linear-forward hq2 hkv1 q{0} k{0} qk32 v24 causal {1}", length, GetParam());
  };
  const std::string whole_text = forward_text(2 * kHalf), half_text = forward_text(kHalf);
  const std::string step_text = "linear-step hq2 hkv1 q1 k1 qk32 v24 " + GetParam();
  const float ulp = GetParam().starts_with("bf16") ? 1.0F / 128 : 1.0F / 1024;
  const Trial whole = make_trial(whole_text, 11);
  const TrialOutputs expected = outputs_of({.problem = whole_text}, whole.inputs);
  expect_right(whole, expected);

  const auto part_of = [&](const std::string& text, int64_t first, int64_t count,
                           const TrialOutputs& before) {
    Trial part = make_trial(text, 11);
    part.inputs.q = rows(whole.inputs.q, first, count, 2 * 32);
    part.inputs.k = rows(whole.inputs.k, first, count, 32);
    part.inputs.v = rows(whole.inputs.v, first, count, 24);
    part.inputs.state = before.state_out;
    part.inputs.normalizer = before.normalizer_out;
    return part;
  };
  const auto close = [&](const std::vector<float>& actual, const std::vector<float>& wanted,
                         float tolerance) {
    ASSERT_EQ(actual.size(), wanted.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_LE(std::abs(actual[i] - wanted[i]), tolerance * (1 + std::abs(wanted[i]))) << i;
    }
  };
  TrialOutputs state;
  for (int64_t first = 0; first < 2 * kHalf; first += kHalf) {
    const Trial part = part_of(half_text, first, kHalf, state);
    state = outputs_of({.problem = half_text}, part.inputs);
    expect_right(part, state);
    close(state.out, rows(expected.out, first, kHalf, 2 * 24), 8 * ulp);
  }
  close(state.state_out, expected.state_out, 1e-3f);

  TrialOutputs last;
  for (int64_t step = 0; step < 2 * kHalf; ++step) {
    const Trial part = part_of(step_text, step, 1, last);
    last = outputs_of({.problem = step_text}, part.inputs);
    expect_right(part, last);
    close(last.out, rows(expected.out, step, 1, 2 * 24), 8 * ulp);
  }
  close(last.state_out, expected.state_out, 8 * ulp);
}

INSTANTIATE_TEST_SUITE_P(Smoke, LinearCarriedState,
                         ::testing::Values("fp16 feature=elu1", "bf16 feature=elu1",
                                           "fp16 feature=identity scale=0.1"),
                         [](const auto& test) { return test_name(test.param); });

// A step may leave its state where it found it: state_out = state, with more query heads than one
// pass over the state serves.
TEST(LinearState, StepUpdatesItInPlace) {
  const std::string text = "linear-step b2 hq36 hkv2 q1 k1 qk40 v72 fp16";
  const Trial trial = make_trial(text, 5);
  const TrialOutputs expected = outputs_of({.problem = text}, trial.inputs);
  Session& session = shared_session("emulated:a100");
  const Result<Kernel> kernel = session.prepare(trial.problem);
  ASSERT_TRUE(kernel.ok()) << kernel.error().to_string();
  const Result<LaunchPlan> plan = kernel->plan({.batch = 2, .seqlen_q = 1, .seqlen_k = 1});
  ASSERT_TRUE(plan.ok());

  const auto place = [&](std::vector<int64_t> shape, Dtype dtype,
                         const std::vector<float>& values) {
    Tensor tensor{.dtype = dtype, .rank = static_cast<int>(shape.size())};
    int64_t elements = 1;
    for (size_t dim = shape.size(); dim-- > 0; elements *= shape[dim]) {
      tensor.shape[dim] = shape[dim];
      tensor.strides[dim] = elements;
    }
    std::vector<std::byte> bytes(static_cast<size_t>(elements * size_in_bytes(dtype)));
    if (!values.empty()) from_float(dtype, values, bytes.data());
    tensor.data = *session.allocate(static_cast<int64_t>(bytes.size()));
    TW_CHECK(session.copy_in(tensor.data, bytes.data(), static_cast<int64_t>(bytes.size())).ok(),
             "copy");
    return tensor;
  };
  LaunchTensors tensors;
  tensors.q = place({2, 1, 36, 40}, Dtype::kFloat16, trial.inputs.q);
  tensors.k = place({2, 1, 2, 40}, Dtype::kFloat16, trial.inputs.k);
  tensors.v = place({2, 1, 2, 72}, Dtype::kFloat16, trial.inputs.v);
  tensors.out = place({2, 1, 36, 72}, Dtype::kFloat16, {});
  tensors.state = place({2, 2, 40, 72}, Dtype::kFloat32, trial.inputs.state);
  tensors.normalizer = place({2, 2, 40}, Dtype::kFloat32, trial.inputs.normalizer);
  tensors.state_out = tensors.state;
  tensors.normalizer_out = tensors.normalizer;
  const Status status = kernel->launch(nullptr, *plan, tensors);
  ASSERT_TRUE(status.ok()) << status.error().to_string();
  ASSERT_TRUE(session.synchronize().ok());

  const auto values_of = [&](const Tensor& tensor, size_t count) {
    std::vector<std::byte> bytes(count * static_cast<size_t>(size_in_bytes(tensor.dtype)));
    TW_CHECK(session.copy_out(bytes.data(), tensor.data, static_cast<int64_t>(bytes.size())).ok(),
             "copy");
    std::vector<float> values(count);
    to_float(tensor.dtype, bytes.data(), values);
    return values;
  };
  EXPECT_EQ(values_of(tensors.out, expected.out.size()), expected.out);
  EXPECT_EQ(values_of(tensors.state, expected.state_out.size()), expected.state_out);
  EXPECT_EQ(values_of(tensors.normalizer, expected.normalizer_out.size()), expected.normalizer_out);
  for (const Tensor& each :
       {tensors.q, tensors.k, tensors.v, tensors.out, tensors.state, tensors.normalizer}) {
    EXPECT_TRUE(session.release(each.data).ok());
  }
}

// What a step needs does not grow with what came before.
TEST(LinearState, StepHasNoWorkspaceAndAFixedState) {
  Session& session = shared_session("emulated:a100");
  const auto kernel = session.prepare(*Problem::parse("linear-step hq2 hkv1 qk64 v48 fp16"));
  ASSERT_TRUE(kernel.ok()) << kernel.error().to_string();
  const auto plan = kernel->plan({.batch = 1, .seqlen_q = 1, .seqlen_k = 1});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->workspace_bytes, 0);
  for (const TensorRequirement& tensor : plan->tensors) {
    if (tensor.name == "state") {
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{1, 1, 64, 48}));
    }
  }
  EXPECT_FALSE(kernel->plan({.batch = 1, .seqlen_q = 2, .seqlen_k = 1}).ok());
}

TEST(LinearState, BadOnesAreNamed) {
  Session& session = shared_session("emulated:a100");
  const Problem problem = *Problem::parse("linear-step hq1 hkv1 qk16 v8 fp16");
  const auto kernel = session.prepare(problem);
  ASSERT_TRUE(kernel.ok());
  const auto plan = kernel->plan({.batch = 1, .seqlen_q = 1, .seqlen_k = 1});
  ASSERT_TRUE(plan.ok());
  LaunchTensors tensors;
  tensors.state = {.data = reinterpret_cast<void*>(uintptr_t{256}),
                   .dtype = Dtype::kFloat32,
                   .rank = 4,
                   .shape = {1, 1, 8, 16},
                   .strides = {128, 128, 16, 1}};
  const Status status = kernel->launch(nullptr, *plan, tensors);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().to_string(), HasSubstr("tensor state has shape [1, 1, 8, 16]"));
  EXPECT_THAT(status.error().to_string(), HasSubstr("the plan needs [1, 1, 16, 8]"));
  EXPECT_THAT(status.error().to_string(), HasSubstr("tensor state_out is missing"));
  EXPECT_THAT(status.error().to_string(), HasSubstr("tensor state is given without normalizer"));
  tensors.normalizer = {.data = reinterpret_cast<void*>(uintptr_t{256}),
                        .dtype = Dtype::kFloat16,
                        .rank = 3,
                        .shape = {1, 1, 8},
                        .strides = {8, 8, 1}};
  for (const char* text : {"linear-step hq1 hkv1 qk16 v8", "linear-forward hq1 hkv1 qk16 v8"}) {
    const auto other = session.prepare(*Problem::parse(text));
    ASSERT_TRUE(other.ok());
    const auto other_plan = other->plan({.batch = 1, .seqlen_q = 1, .seqlen_k = 1});
    ASSERT_TRUE(other_plan.ok());
    const std::string message = other->launch(nullptr, *other_plan, tensors).error().to_string();
    EXPECT_THAT(message, HasSubstr("tensor state has shape [1, 1, 8, 16]"));
    EXPECT_THAT(message, HasSubstr("tensor normalizer has shape [1, 1, 8]"));
    EXPECT_THAT(message, HasSubstr("tensor normalizer is of type fp16, the kernel needs fp32"));
  }
}

}  // namespace
}  // namespace tilewright::testing
