// The fp64 reference against cases whose answer is known without it.
#include "reference/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tilewright::reference {
namespace {

Problem problem_with(std::vector<Mask> masks) {
  Problem problem;
  for (Mask& mask : masks) problem.masks.push_back({{std::move(mask)}});
  return problem;
}

std::vector<float> counting(int64_t count, float step) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * step;
  return values;
}

// Equal scores: the output is the mean of the visible values, lse the log of their number.
TEST(ReferenceAttention, EqualScoresGiveTheMean) {
  const Sizes sizes{.batch = 2,
                    .num_heads_q = 2,
                    .num_heads_kv = 1,
                    .seqlen_q = 3,
                    .seqlen_k = 5,
                    .head_dim_qk = 4,
                    .head_dim_v = 2};
  const std::vector<float> zero(static_cast<size_t>(sizes.q_elements()), 0.0F);
  const std::vector<float> keys = counting(sizes.k_elements(), 0.25F);
  const std::vector<float> values = counting(sizes.v_elements(), 1.0F);
  const Result<Forward> forward =
      attention_forward(problem_with({CausalMask{}}), sizes, {zero, keys, values});
  ASSERT_TRUE(forward.ok());
  for (size_t batch = 0; batch < 2; ++batch) {
    for (size_t query = 0; query < 3; ++query) {
      const size_t visible = query + 3;  // bottom-right: 5 - 3 keys more than the row index + 1
      for (size_t head = 0; head < 2; ++head) {
        EXPECT_NEAR(forward->lse[(batch * 2 + head) * 3 + query],
                    std::log(static_cast<double>(visible)), 1e-14);
        for (size_t column = 0; column < 2; ++column) {
          // Values of key j, column c are batch*10 + 2j + c: their mean over j < visible.
          const double mean = static_cast<double>(batch) * 10 + static_cast<double>(visible - 1) +
                              static_cast<double>(column);
          EXPECT_NEAR(forward->out[((batch * 3 + query) * 2 + head) * 2 + column], mean, 1e-12);
        }
      }
    }
  }
}

TEST(ReferenceAttention, TwoKeysByHand) {
  const Sizes sizes{.seqlen_q = 1, .seqlen_k = 2, .head_dim_qk = 1, .head_dim_v = 1};
  Problem problem;
  problem.softmax_scale = 0.5;
  const std::vector<float> q = {2.0F}, k = {1.0F, 3.0F}, v = {10.0F, 20.0F};
  const Result<Forward> forward = attention_forward(problem, sizes, {q, k, v});
  ASSERT_TRUE(forward.ok());
  const double e1 = std::exp(1.0), e3 = std::exp(3.0);
  EXPECT_NEAR(forward->out[0], (10 * e1 + 20 * e3) / (e1 + e3), 1e-12);
  EXPECT_NEAR(forward->lse[0], std::log(e1 + e3), 1e-12);

  problem.softcap = 1.5;
  const Result<Forward> capped = attention_forward(problem, sizes, {q, k, v});
  ASSERT_TRUE(capped.ok());
  const double c1 = std::exp(1.5 * std::tanh(1 / 1.5)), c3 = std::exp(1.5 * std::tanh(3 / 1.5));
  EXPECT_NEAR(capped->out[0], (10 * c1 + 20 * c3) / (c1 + c3), 1e-12);
}

TEST(ReferenceAttention, RowsWithNoKeyAreZeroAndMinusInfinity) {
  const Sizes sizes{.seqlen_q = 3, .seqlen_k = 1, .head_dim_qk = 2, .head_dim_v = 2};
  const std::vector<float> q(6, 1.0F), k(2, 1.0F), v(2, 5.0F);
  const Result<Forward> forward = attention_forward(problem_with({CausalMask{}}), sizes, {q, k, v});
  ASSERT_TRUE(forward.ok());
  for (size_t row = 0; row < 2; ++row) {
    EXPECT_EQ(forward->lse[row], -std::numeric_limits<double>::infinity());
    EXPECT_EQ(forward->out[row * 2], 0.0);
  }
  EXPECT_EQ(forward->out[4], 5.0);
}

TEST(ReferenceAttention, UnsupportedPartsAreNamed) {
  Problem problem;
  problem.bias = true;
  problem.pass = Pass::kLinearForward;
  const std::vector<float> one(1, 1.0F);
  const Result<Forward> forward = attention_forward(problem, Sizes{}, {one, one, one});
  ASSERT_FALSE(forward.ok());
  EXPECT_EQ(forward.error().reasons, (std::vector<std::string>{"pass linear-forward", "bias"}));
}

}  // namespace
}  // namespace tilewright::reference
