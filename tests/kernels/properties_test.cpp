// Properties of the online softmax that hold for any tiling: huge scores, order of the keys, masks
// that say the same in other words.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "core/check.h"
#include "tests/support/forward_run.h"

namespace tilewright::testing {
namespace {

struct Case {
  std::string text;
  Problem problem;
  reference::Sizes sizes;
  TrialTensors inputs;
};

Case make_case(const std::string& text, uint64_t seed) {
  Case result{text, *Problem::parse(text), {}, {}};
  result.sizes = *trial_sizes(result.problem);
  result.inputs = random_inputs(result.problem, result.sizes, seed);
  return result;
}

void expect_right(const Case& test, const TrialOutputs& outputs) {
  const Result<Verdict> verdict = verify(test.problem, test.sizes, test.inputs, outputs);
  ASSERT_TRUE(verdict.ok());
  EXPECT_TRUE(verdict->ok()) << test.text << ": " << verdict->detail();
}

// Of forward_sm80 and forward_sm90.
class OnlineSoftmax : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Smoke, OnlineSoftmax, ::testing::Values("emulated:a100", "emulated:h100"),
                         [](const auto& test) { return std::string(test.param).substr(9); });

// Whatever the products are.
TEST_P(OnlineSoftmax, AScaleOfZeroWeighsAllKeysAlike) {
  const std::string sizes = "hq2 hkv1 q40 k50 qk64 v64 bf16 causal scale=0";
  for (const std::string& text :
       {sizes, sizes + " softcap=2", "standard " + sizes, "backward " + sizes}) {
    Case test = make_case(text, 4);
    for (float& value : test.inputs.q) value *= 0x1p60F;
    for (float& value : test.inputs.k) value *= 0x1p60F;
    ASSERT_TRUE(complete_inputs(test.problem, test.sizes, test.inputs).ok());
    expect_right(test, outputs_of({.device = GetParam(), .problem = text}, test.inputs));
  }
}

// Scores of ±10^4, far beyond what exp can take without a running maximum; some tiles lie wholly
// below the ones before, some wholly above.
TEST_P(OnlineSoftmax, HugeScoresNeitherOverflowNorVanish) {
  for (const char* text : {"hq1 hkv1 q65 k197 qk64 v64 fp16", "hq1 hkv1 q65 k197 qk64 v64 bf16",
                           "hq1 hkv1 q65 k197 qk128 v128 fp16 causal"}) {
    Case test = make_case(text, 11);
    for (float& value : test.inputs.q) value *= 64.0F;
    for (float& value : test.inputs.k) value *= 32.0F;
    expect_right(test, outputs_of({.device = GetParam(), .problem = text}, test.inputs));
  }
}

// A score of -20000 is a score, not a mask: the masked key must not leak in.
TEST_P(OnlineSoftmax, VeryNegativeScoresAreNotMasks) {
  const char* text = "hq1 hkv1 q2 k2 qk8 v8 fp16 scale=1 causal";
  Case test = make_case(text, 1);
  std::fill(test.inputs.q.begin(), test.inputs.q.end(), 0.0F);
  std::fill(test.inputs.k.begin(), test.inputs.k.end(), 0.0F);
  test.inputs.q[0] = -20000.0F;
  test.inputs.k[0] = 1.0F;
  std::fill_n(test.inputs.v.begin(), 8, 1.0F);
  std::fill_n(test.inputs.v.begin() + 8, 8, 100.0F);
  const TrialOutputs outputs = outputs_of({.device = GetParam(), .problem = text}, test.inputs);
  EXPECT_EQ(outputs.out[0], 1.0F);
  EXPECT_NEAR(outputs.lse[0], -20000.0F, 0.01F);
}

// The order of the keys changes the rounding and nothing else.
TEST_P(OnlineSoftmax, AnyOrderOfKeysIsRight) {
  const char* text = "hq1 hkv1 q33 k203 qk64 v64 fp16";
  const Case original = make_case(text, 5);
  std::vector<size_t> order(203);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 random(17);
  for (int round = 0; round < 3; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    Case shuffled = original;
    for (size_t key = 0; key < order.size(); ++key) {
      std::copy_n(original.inputs.k.begin() + static_cast<ptrdiff_t>(order[key] * 64), 64,
                  shuffled.inputs.k.begin() + static_cast<ptrdiff_t>(key * 64));
      std::copy_n(original.inputs.v.begin() + static_cast<ptrdiff_t>(order[key] * 64), 64,
                  shuffled.inputs.v.begin() + static_cast<ptrdiff_t>(key * 64));
    }
    // Judged against the reference of the original order.
    expect_right(original, outputs_of({.device = GetParam(), .problem = text}, shuffled.inputs));
  }
}

// Rising scores make every tile replace the maximum; falling ones never do.
TEST_P(OnlineSoftmax, RisingAndFallingScores) {
  for (const float direction : {1.0F, -1.0F}) {
    const char* text = "hq1 hkv1 q17 k259 qk64 v64 bf16";
    Case test = make_case(text, 9);
    std::fill(test.inputs.q.begin(), test.inputs.q.end(), 1.0F);
    for (size_t i = 0; i < test.inputs.k.size(); ++i) {
      test.inputs.k[i] = direction * static_cast<float>(i / 64) / 16.0F;
    }
    // Values of i/16 up to 16.2 need more than the 8 bits of bf16: round as the kernel's input is.
    for (float& value : test.inputs.k) value = std::round(value * 8.0F) / 8.0F;
    expect_right(test, outputs_of({.device = GetParam(), .problem = text}, test.inputs));
  }
}

// A window that reaches back to the first key is the causal mask, bit for bit.
TEST(Masks, AWindowOverEverythingIsCausal) {
  const Case test = make_case("hq2 hkv1 q130 k130 qk64 v64 fp16 causal", 3);
  const TrialOutputs causal = outputs_of({.problem = test.text}, test.inputs);
  const TrialOutputs window =
      outputs_of({.problem = "hq2 hkv1 q130 k130 qk64 v64 fp16 window=129,0"}, test.inputs);
  EXPECT_EQ(causal.out, window.out);
  EXPECT_EQ(causal.lse, window.lse);
}

}  // namespace
}  // namespace tilewright::testing
