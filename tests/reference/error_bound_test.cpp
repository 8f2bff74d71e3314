// The bounds let right results pass and catch each kind of wrong one.
#include "reference/error_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "autotune/trial.h"

namespace tilewright::reference {
namespace {

class ErrorBound : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override {
    problem_.dtype = GetParam();
    problem_.masks = {{{CausalMask{}}}};
    inputs_ = random_inputs(problem_, sizes_, 3);
    Result<Forward> forward = attention_forward(problem_, sizes_, inputs_.view());
    ASSERT_TRUE(forward.ok());
    expected_ = *std::move(forward);
    Result<std::vector<float>> plain =
        attention_forward_same_precision(problem_, sizes_, inputs_.view(), GetParam());
    ASSERT_TRUE(plain.ok());
    plain_ = *std::move(plain);
    lse_.assign(expected_.lse.begin(), expected_.lse.end());
  }

  Comparison out_of(const std::vector<float>& out) const {
    return compare_out(problem_, sizes_, GetParam(), out, expected_, plain_);
  }

  Problem problem_;
  Sizes sizes_{.batch = 1,
               .num_heads_q = 2,
               .num_heads_kv = 1,
               .seqlen_q = 33,
               .seqlen_k = 45,
               .head_dim_qk = 24,
               .head_dim_v = 16};
  TrialTensors inputs_;
  Forward expected_;
  std::vector<float> plain_, lse_;
};

TEST_P(ErrorBound, ThePlainComputationPasses) {
  const Comparison comparison = out_of(plain_);
  EXPECT_TRUE(comparison.ok) << comparison.detail;
  EXPECT_GT(comparison.worst_ratio, 0.05);  // the bound is not idle
  EXPECT_TRUE(compare_lse(problem_, sizes_, lse_, expected_).ok);
}

TEST_P(ErrorBound, NanNeverPasses) {
  std::vector<float> out = plain_;
  out[100] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(out_of(out).ok);
  lse_[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(compare_lse(problem_, sizes_, lse_, expected_).ok);
}

TEST_P(ErrorBound, AMaskEdgeOffByOneIsCaught) {
  Problem wrong = problem_;
  wrong.masks = {{{WindowMask{std::nullopt, 1, 1}}}};
  const Result<std::vector<float>> out =
      attention_forward_same_precision(wrong, sizes_, inputs_.view(), GetParam());
  ASSERT_TRUE(out.ok());
  EXPECT_FALSE(out_of(*out).ok);
}

TEST_P(ErrorBound, ADroppedLastKeyIsCaught) {
  Problem wrong = problem_;
  wrong.masks = {{{WindowMask{std::nullopt, -1 + 0, 1}}}};
  const Result<std::vector<float>> out =
      attention_forward_same_precision(wrong, sizes_, inputs_.view(), GetParam());
  ASSERT_TRUE(out.ok());
  EXPECT_FALSE(out_of(*out).ok);
}

TEST_P(ErrorBound, LseInAnotherBaseIsCaught) {
  for (float& value : lse_) value *= 1.4426950408889634F;
  EXPECT_FALSE(compare_lse(problem_, sizes_, lse_, expected_).ok);
}

// NaN or infinity in an input: whatever the kernel made of it, nothing is certified.
TEST_P(ErrorBound, AnInputThatIsNotFiniteCertifiesNothing) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (std::vector<float>* tensor : {&inputs_.q, &inputs_.k, &inputs_.v}) {
      const float before = std::exchange((*tensor)[7], bad);
      const Result<Forward> reference = attention_forward(problem_, sizes_, inputs_.view());
      const Result<std::vector<float>> plain =
          attention_forward_same_precision(problem_, sizes_, inputs_.view(), GetParam());
      (*tensor)[7] = before;
      ASSERT_TRUE(reference.ok() && plain.ok());
      std::vector<float> out(reference->out.begin(), reference->out.end());
      const std::vector<float> lse(reference->lse.begin(), reference->lse.end());
      for (int kind = 0; kind < 2; ++kind) {  // once as the reference has it, once all wrong
        const Comparison of_out =
            compare_out(problem_, sizes_, GetParam(), out, *reference, *plain);
        EXPECT_FALSE(of_out.ok);
        EXPECT_NE(of_out.detail.find("the reference is not finite at element"), std::string::npos);
        if (tensor != &inputs_.v) {
          const Comparison of_lse = compare_lse(problem_, sizes_, lse, *reference);
          EXPECT_FALSE(of_lse.ok);
          EXPECT_NE(of_lse.detail.find("the input holds NaN or infinity"), std::string::npos);
        }
        std::fill(out.begin(), out.end(), 0.0F);
      }
    }
  }
}

TEST_P(ErrorBound, APlainComputationThatIsNotFiniteIsNoYardstick) {
  const std::vector<float> out = plain_;
  plain_[3] = std::numeric_limits<float>::quiet_NaN();
  const Comparison comparison = out_of(out);
  EXPECT_FALSE(comparison.ok);
  EXPECT_FALSE(comparison.comparable);
  EXPECT_NE(comparison.detail.find("plain attention of the same precision is not finite at element "
                                   "3: its numbers are too large for fp32"),
            std::string::npos);
}

// The error of a plain computation that is right by luck is no yardstick, but half an ulp is.
TEST_P(ErrorBound, ALuckyPlainComputationForbidsNoRounding) {
  const auto largest = std::max_element(
      plain_.begin(), plain_.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const auto index = static_cast<size_t>(largest - plain_.begin());
  const double digits = GetParam() == Dtype::kFloat16 ? 11 : 8;
  const double half_ulp = std::exp2(std::floor(std::log2(std::fabs(*largest))) - digits);
  const auto with_error = [&](double error) {
    std::vector<float> out(expected_.out.begin(), expected_.out.end());
    const std::vector<float> lucky = out;
    out[index] += static_cast<float>(error);
    return compare_out(problem_, sizes_, GetParam(), out, expected_, lucky);
  };
  EXPECT_TRUE(with_error(1.9 * half_ulp).ok) << with_error(1.9 * half_ulp).detail;
  EXPECT_FALSE(with_error(2.1 * half_ulp).ok);
}

// A cap far above all scores changes nothing, and must not excuse anything.
TEST_P(ErrorBound, AHugeSoftcapDoesNotWidenIt) {
  problem_.softcap = 1e6;
  const Result<Forward> reference = attention_forward(problem_, sizes_, inputs_.view());
  ASSERT_TRUE(reference.ok());
  std::vector<float> lse(reference->lse.begin(), reference->lse.end());
  EXPECT_TRUE(compare_lse(problem_, sizes_, lse, *reference).ok);
  lse[7] += 0.001F;
  EXPECT_FALSE(compare_lse(problem_, sizes_, lse, *reference).ok);
  problem_.softcap = 2;  // below the scores the cap itself is what tanh errs by
  EXPECT_GT(score_error(problem_, sizes_, 10, 5), 8 * 0x1p-23);
}

// With scores of 1e8, fp32 cannot tell neighbours apart: the bound is at most twice the largest
// value, and says that it proves nothing.
TEST_P(ErrorBound, LargeScoresCapTheBound) {
  EXPECT_EQ(out_of(plain_).capped_elements, 0);
  problem_.softmax_scale = 1e8;
  const Result<Forward> reference = attention_forward(problem_, sizes_, inputs_.view());
  ASSERT_TRUE(reference.ok());
  std::vector<float> out(reference->out.begin(), reference->out.end());
  const Comparison near = compare_out(problem_, sizes_, GetParam(), out, *reference, out);
  EXPECT_TRUE(near.ok) << near.detail;
  EXPECT_GT(near.capped_elements, 0);
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_GE(reference->value_max[i] * (1 + 1e-12), std::fabs(reference->out[i]));
  }
  out[out.size() - 1] = 1000.0F;
  const Comparison far = compare_out(problem_, sizes_, GetParam(), out, *reference, out);
  EXPECT_FALSE(far.ok);
  EXPECT_GT(far.worst_ratio, 1.0);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ErrorBound, ::testing::Values(Dtype::kFloat16, Dtype::kBFloat16));

}  // namespace
}  // namespace tilewright::reference
