// The fp64 gradients against finite differences and against cases whose answer is known.
#include "reference/backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/reference/support.h"

namespace tilewright::reference {
namespace {

struct Tensors {
  std::vector<float> q, k, v, dout;
  BackwardInputs view() const { return {.forward = {q, k, v}, .dout = dout}; }
};

Tensors coarse_tensors(const Sizes& sizes, uint64_t seed) {
  return {coarse(sizes.q_elements(), seed), coarse(sizes.k_elements(), seed + 1),
          coarse(sizes.v_elements(), seed + 2), coarse(sizes.out_elements(), seed + 3)};
}

// <dO, O>, whose gradients are dQ, dK and dV.
double loss(const Problem& problem, const Sizes& sizes, const Tensors& x) {
  const Result<Forward> forward = attention_forward(problem, sizes, {x.q, x.k, x.v});
  EXPECT_TRUE(forward.ok());
  double sum = 0;
  for (size_t i = 0; i < x.dout.size(); ++i) sum += double{x.dout[i]} * forward->out[i];
  return sum;
}

// Largest difference between `gradient` and the five-point differences of the loss by `values`.
double worst(const Problem& problem, const Sizes& sizes, Tensors& x, std::vector<float>& values,
             const std::vector<double>& gradient) {
  constexpr float kStep = 0x1p-7F;
  std::vector<double> differences;
  for (float& value : values) {
    const float before = value;
    const auto at = [&](float steps) {
      value = before + steps * kStep;  // exact: a multiple of 1/128
      const double result = loss(problem, sizes, x);
      value = before;
      return result;
    };
    differences.push_back((8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12.0 * double{kStep}));
  }
  return max_difference(gradient, differences);
}

class Differences : public ::testing::TestWithParam<const char*> {};

TEST_P(Differences, MatchTheGradients) {
  const Problem problem = parse(GetParam());
  const Sizes sizes = sizes_of(problem);
  Tensors x = coarse_tensors(sizes, 11);
  const Result<Gradients> gradients = attention_backward(problem, sizes, x.view());
  ASSERT_TRUE(gradients.ok()) << gradients.error().message;
  EXPECT_LT(worst(problem, sizes, x, x.q, gradients->dq), 2e-8);
  EXPECT_LT(worst(problem, sizes, x, x.k, gradients->dk), 2e-8);
  EXPECT_LT(worst(problem, sizes, x, x.v, gradients->dv), 2e-8);
  double largest = 0;
  for (const double value : gradients->dk) largest = std::max(largest, std::fabs(value));
  EXPECT_GT(largest, 1e-3);  // there was something to compare
}

INSTANTIATE_TEST_SUITE_P(
    Odd, Differences,
    ::testing::Values(
        "backward b1 hq1 hkv1 q1 k2 qk1 v1 fp16 scale=0.5 softcap=0.75 causal",
        "backward b2 hq2 hkv1 q3 k5 qk3 v2 fp16", "backward b1 hq4 hkv2 q5 k7 qk2 v5 fp16 causal",
        "backward b1 hq3 hkv3 q7 k5 qk3 v1 fp16 causal",
        "backward b1 hq2 hkv1 q5 k3 qk5 v3 fp16 causal=top-left scale=-0.7",
        "backward b1 hq2 hkv2 q7 k7 qk3 v3 fp16 window=2,1 softcap=0.5",
        "backward b1 hq1 hkv1 q5 k9 qk3 v2 fp16 window=4,4,dilation:3 scale=2 softcap=2",
        "backward b1 hq2 hkv1 q6 k6 qk3 v3 fp16 longformer=window:2,global:{3}",
        "backward b1 hq1 hkv1 q7 k7 qk3 v3 fp16 chunk=3 softcap=1"));

// A gradient of one weight by hand: two keys, one query, all of size 1.
TEST(ReferenceBackward, TwoKeysByHand) {
  const Sizes sizes{.seqlen_q = 1, .seqlen_k = 2, .head_dim_qk = 1, .head_dim_v = 1};
  Problem problem;
  problem.pass = Pass::kBackward;
  problem.softmax_scale = 0.5;
  const std::vector<float> q = {2}, k = {1, 3}, v = {10, 20}, dout = {3};
  const auto g = attention_backward(problem, sizes, {.forward = {q, k, v}, .dout = dout});
  ASSERT_TRUE(g.ok());
  const double p1 = 1 / (1 + std::exp(-2.0)), p0 = 1 - p1, pp = p0 * p1;
  EXPECT_NEAR(g->dv[0], 3 * p0, 1e-14);
  EXPECT_NEAR(g->dv[1], 3 * p1, 1e-14);
  EXPECT_NEAR(g->dq[0], 0.5 * 3 * pp * (20 - 10) * (3 - 1), 1e-13);
  EXPECT_NEAR(g->dk[0], 0.5 * 3 * pp * (10 - 20) * 2, 1e-13);
  EXPECT_NEAR(g->dk[1], 0.5 * 3 * pp * (20 - 10) * 2, 1e-13);
}

TEST(ReferenceBackward, RowsWithoutKeysAndKeysWithoutRowsGetZero) {
  // Bottom-right causal with more queries than keys: rows 0 and 1 see nothing. Top-left with more
  // keys than queries: keys 3 and 4 are seen by nobody.
  const Problem tall = parse("backward b1 hq1 hkv1 q5 k3 qk3 v3 fp16 causal");
  Tensors x = coarse_tensors(sizes_of(tall), 1);
  const auto of_tall = attention_backward(tall, sizes_of(tall), x.view());
  ASSERT_TRUE(of_tall.ok());
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(of_tall->dq[i], 0.0);
  for (size_t i = 9; i < 15; ++i) EXPECT_NE(of_tall->dq[i], 0.0);
  const Problem wide = parse("backward b1 hq1 hkv1 q3 k5 qk3 v3 fp16 causal=top-left");
  x = coarse_tensors(sizes_of(wide), 2);
  const auto of_wide = attention_backward(wide, sizes_of(wide), x.view());
  ASSERT_TRUE(of_wide.ok());
  for (size_t i = 0; i < 15; ++i) {
    EXPECT_EQ(of_wide->dk[i] == 0.0, i >= 9);
    EXPECT_EQ(of_wide->dv[i] == 0.0, i >= 9);
  }
  const Problem none = parse("backward b1 hq1 hkv1 q3 k0 qk3 v3 fp16");
  x = coarse_tensors(sizes_of(none), 3);
  const auto of_none = attention_backward(none, sizes_of(none), x.view());
  ASSERT_TRUE(of_none.ok());
  EXPECT_EQ(of_none->dq, std::vector<double>(9, 0.0));
  EXPECT_TRUE(of_none->dk.empty());
}

// The gradients of two parts of the keys, each given the whole's out and lse, are the whole's.
TEST(ReferenceBackward, PartsOfTheKeysAddUp) {
  const Problem problem = parse("backward b1 hq4 hkv2 q5 k11 qk3 v7 fp16 softcap=1.5");
  const Sizes whole = sizes_of(problem);
  const Tensors x = coarse_tensors(whole, 5);
  const auto forward = attention_forward(problem, whole, {x.q, x.k, x.v});
  const auto expected = attention_backward(problem, whole, x.view());
  ASSERT_TRUE(forward.ok() && expected.ok());
  std::vector<double> dq(expected->dq.size(), 0.0), dk, dv;
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 4}, {4, 11}}) {
    Sizes part = whole;
    part.seqlen_k = end - begin;
    const auto rows = [&](const std::vector<float>& tensor, int64_t dim) {  // batch is 1
      const int64_t row = whole.num_heads_kv * dim;
      return std::vector<float>(tensor.begin() + begin * row, tensor.begin() + end * row);
    };
    const std::vector<float> k = rows(x.k, 3), v = rows(x.v, 7);
    const auto g = attention_backward(
        problem, part,
        {.forward = {x.q, k, v}, .dout = x.dout, .out = forward->out, .lse = forward->lse});
    ASSERT_TRUE(g.ok());
    for (size_t i = 0; i < dq.size(); ++i) dq[i] += g->dq[i];
    dk.insert(dk.end(), g->dk.begin(), g->dk.end());
    dv.insert(dv.end(), g->dv.begin(), g->dv.end());
  }
  EXPECT_LT(max_difference(dq, expected->dq), 1e-14);
  EXPECT_LT(max_difference(dk, expected->dk), 1e-14);
  EXPECT_LT(max_difference(dv, expected->dv), 1e-14);
}

TEST(ReferenceBackward, UnsupportedPartsAreNamed) {
  Problem problem;
  problem.pass = Pass::kLinearBackward;
  problem.dropout = 0.5;
  const std::vector<float> one(1, 1.0F);
  const auto g = attention_backward(problem, Sizes{}, {.forward = {one, one, one}, .dout = one});
  ASSERT_FALSE(g.ok());
  EXPECT_EQ(g.error().reasons, (std::vector<std::string>{"pass linear-backward", "dropout"}));
}

}  // namespace
}  // namespace tilewright::reference
