// The bounds let right results pass and catch each kind of wrong one.
#include "reference/error_bound.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

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
  TrialInputs inputs_;
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

INSTANTIATE_TEST_SUITE_P(Dtypes, ErrorBound, ::testing::Values(Dtype::kFloat16, Dtype::kBFloat16));

}  // namespace
}  // namespace tilewright::reference
