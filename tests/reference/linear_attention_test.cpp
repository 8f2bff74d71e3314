// Linear attention: the three forms against each other and against the formula, states that carry
// over, gradients against finite differences.
#include "reference/linear_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/reference/support.h"

namespace tilewright::reference {
namespace {

struct Tensors {
  std::vector<float> q, k, v, state, normalizer;
  LinearInputs view() const { return {q, k, v, state, normalizer}; }
};

Tensors tensors(const Problem& problem, const Sizes& sizes, uint64_t seed, bool with_state) {
  Tensors x{coarse(sizes.q_elements(), seed),
            coarse(sizes.k_elements(), seed + 1),
            coarse(sizes.v_elements(), seed + 2),
            {},
            {}};
  if (!with_state) return x;
  const int64_t rows = sizes.batch * sizes.num_heads_kv * sizes.head_dim_qk;
  x.state = coarse(rows * sizes.head_dim_v, seed + 3);
  if (!has_normalizer(problem)) return x;
  x.normalizer = coarse(rows, seed + 4);
  for (float& value : x.normalizer) value = std::fabs(value) + 1;
  return x;
}

// The definition, with nothing of the forms: visible keys one by one.
std::vector<double> literal(const Problem& problem, const Sizes& s, const Tensors& x, bool causal,
                            bool top_left) {
  const auto phi = [&](double value) {
    if (problem.feature == FeatureMap::kIdentity) return value;
    return value > 0 ? value + 1 : std::exp(value);
  };
  const double scale = problem.softmax_scale.value_or(1);
  std::vector<double> out;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t i = 0; i < s.seqlen_q; ++i) {
      for (int64_t h = 0; h < s.num_heads_q; ++h) {
        const int64_t g = h / (s.num_heads_q / s.num_heads_kv);
        for (int64_t c = 0; c < s.head_dim_v; ++c) {
          double above = 0, below = 1e-6;
          for (int64_t a = 0; a < s.head_dim_qk; ++a) {
            const auto q_at = ((b * s.seqlen_q + i) * s.num_heads_q + h) * s.head_dim_qk + a;
            const double q = phi(scale * double{x.q[static_cast<size_t>(q_at)]});
            const auto row = static_cast<size_t>((b * s.num_heads_kv + g) * s.head_dim_qk + a);
            if (!x.state.empty()) {
              above +=
                  q *
                  double{x.state[row * static_cast<size_t>(s.head_dim_v) + static_cast<size_t>(c)]};
            }
            if (!x.normalizer.empty()) below += q * double{x.normalizer[row]};
            for (int64_t j = 0; j < s.seqlen_k; ++j) {
              if (causal && j > i + (top_left ? 0 : s.seqlen_k - s.seqlen_q)) break;
              const auto key = static_cast<size_t>((b * s.seqlen_k + j) * s.num_heads_kv + g);
              const double k = phi(
                  double{x.k[key * static_cast<size_t>(s.head_dim_qk) + static_cast<size_t>(a)]});
              above +=
                  q * k *
                  double{x.v[key * static_cast<size_t>(s.head_dim_v) + static_cast<size_t>(c)]};
              below += q * k;
            }
          }
          out.push_back(problem.feature == FeatureMap::kIdentity ? above : above / below);
        }
      }
    }
  }
  return out;
}

class Forms : public ::testing::TestWithParam<const char*> {};

TEST_P(Forms, AgreeWithTheDefinition) {
  for (const char* feature : {"elu1", "identity"}) {
    for (const char* mask : {"", " causal", " causal=top-left", " causal scale=-0.75"}) {
      for (const bool with_state : {false, true}) {
        const std::string text =
            std::string("linear-forward ") + GetParam() + mask + " feature=" + feature;
        SCOPED_TRACE(text + (with_state ? " with a state" : ""));
        const Problem problem = parse(text);
        const Sizes sizes = sizes_of(problem);
        const Tensors x = tensors(problem, sizes, 17, with_state);
        const std::vector<double> expected =
            literal(problem, sizes, x, *mask != '\0', text.find("top-left") != std::string::npos);
        const auto parallel = linear_attention_parallel(problem, sizes, x.view());
        ASSERT_TRUE(parallel.ok()) << parallel.error().message;
        EXPECT_LT(max_difference(parallel->out, expected), 1e-13);
        for (const int64_t chunk : {1, 2, 5, 64}) {
          const auto chunked = linear_attention_chunked(problem, sizes, x.view(), chunk);
          ASSERT_TRUE(chunked.ok());
          EXPECT_LT(max_difference(chunked->out, expected), 1e-13) << chunk;
          EXPECT_EQ(chunked->after.state, parallel->after.state);
          EXPECT_EQ(chunked->after.normalizer, parallel->after.normalizer);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Odd, Forms,
                         ::testing::Values("b1 hq1 hkv1 q1 k1 qk1 v1 fp16",
                                           "b2 hq4 hkv2 q7 k7 qk3 v5 fp16",
                                           "b1 hq3 hkv1 q5 k11 qk5 v2 fp16",
                                           "b1 hq2 hkv2 q11 k5 qk2 v3 fp16",
                                           "b2 hq2 hkv1 q3 k0 qk3 v2 fp16"));

// A sequence cut in two, the second part given what the first left behind; and token by token.
TEST(LinearAttention, StatesCarryOver) {
  for (const char* feature : {"elu1", "identity"}) {
    const Problem problem = parse(std::string("linear-forward b1 hq4 hkv2 q13 k13 qk3 v5 fp16 "
                                              "causal feature=") +
                                  feature);
    const Sizes whole = sizes_of(problem);
    const Tensors x = tensors(problem, whole, 3, false);
    const auto expected = linear_attention_parallel(problem, whole, x.view());
    ASSERT_TRUE(expected.ok());
    for (const std::vector<int64_t>& cuts :
         {std::vector<int64_t>{0, 5, 13}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}}) {
      std::vector<double> out;
      Tensors part;
      for (size_t n = 0; n + 1 < cuts.size(); ++n) {
        const auto rows = [&](const std::vector<float>& tensor, int64_t row) {
          return std::vector<float>(tensor.begin() + cuts[n] * row,
                                    tensor.begin() + cuts[n + 1] * row);
        };
        part.q = rows(x.q, 4 * 3), part.k = rows(x.k, 2 * 3), part.v = rows(x.v, 2 * 5);
        Sizes sizes = whole;
        sizes.seqlen_q = sizes.seqlen_k = cuts[n + 1] - cuts[n];
        const auto step = linear_attention_recurrent(problem, sizes, part.view());
        ASSERT_TRUE(step.ok()) << step.error().message;
        out.insert(out.end(), step->out.begin(), step->out.end());
        part.state.assign(step->after.state.begin(), step->after.state.end());
        part.normalizer.assign(step->after.normalizer.begin(), step->after.normalizer.end());
        EXPECT_EQ(step->after.state.size(), 2U * 3 * 5);  // whatever the length
      }
      EXPECT_LT(max_difference(out, expected->out), 1e-6);  // the state passed through fp32
    }
  }
}

// By hand: one feature, two tokens.
TEST(LinearAttention, TwoTokensByHand) {
  const Sizes sizes{.seqlen_q = 2, .seqlen_k = 2, .head_dim_qk = 1, .head_dim_v = 1};
  const std::vector<float> q = {1, -1}, k = {2, -3}, v = {10, 20};
  Problem problem = parse("linear-forward causal feature=elu1");
  const auto elu = linear_attention_recurrent(problem, sizes, {q, k, v});
  ASSERT_TRUE(elu.ok());
  const double k0 = 3, k1 = std::exp(-3.0), q1 = std::exp(-1.0);
  EXPECT_NEAR(elu->out[0], 2 * k0 * 10 / (2 * k0 + 1e-6), 1e-14);
  EXPECT_NEAR(elu->out[1], q1 * (k0 * 10 + k1 * 20) / (q1 * (k0 + k1) + 1e-6), 1e-14);
  EXPECT_NEAR(elu->after.state[0], k0 * 10 + k1 * 20, 1e-14);
  EXPECT_NEAR(elu->after.normalizer[0], k0 + k1, 1e-14);
  problem.feature = FeatureMap::kIdentity;
  const auto identity = linear_attention_recurrent(problem, sizes, {q, k, v});
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->out, (std::vector<double>{20, 40}));
  EXPECT_EQ(identity->after.state, std::vector<double>{-40});
  EXPECT_TRUE(identity->after.normalizer.empty());
}

TEST(LinearAttention, GradientsMatchDifferences) {
  for (const char* text : {"b1 hq2 hkv1 q5 k7 qk3 v2 fp16 causal feature=elu1 scale=0.75",
                           "b2 hq1 hkv1 q3 k5 qk3 v2 fp16 feature=elu1",
                           "b1 hq4 hkv2 q7 k5 qk2 v3 fp16 causal feature=identity scale=-0.5",
                           "b1 hq1 hkv1 q3 k4 qk3 v1 fp16 feature=identity"}) {
    SCOPED_TRACE(text);
    const Problem problem = parse(std::string("linear-backward ") + text);
    const Sizes sizes = sizes_of(problem);
    Tensors x = tensors(problem, sizes, 5, false);
    // Not near the kink of elu, which five-point differences must not straddle.
    for (float& value : x.q) value += value >= 0 ? 0.0625F : -0.0625F;
    for (float& value : x.k) value += value >= 0 ? 0.0625F : -0.0625F;
    const std::vector<float> dout = coarse(sizes.out_elements(), 9);
    const auto g = linear_attention_backward(problem, sizes, x.view(), dout);
    ASSERT_TRUE(g.ok()) << g.error().message;
    const auto loss = [&] {
      const auto forward = linear_attention_parallel(problem, sizes, x.view());
      double sum = 0;
      for (size_t i = 0; i < dout.size(); ++i) sum += double{dout[i]} * forward->out[i];
      return sum;
    };
    const auto worst = [&](std::vector<float>& values, const std::vector<double>& gradient) {
      std::vector<double> differences;
      for (float& value : values) {
        const float before = value;
        const auto at = [&](float steps) {
          value = before + steps * 0x1p-7F;
          return loss();
        };
        differences.push_back((8 * (at(1) - at(-1)) - (at(2) - at(-2))) * 128 / 12);
        value = before;
      }
      return max_difference(gradient, differences);
    };
    EXPECT_LT(worst(x.q, g->dq), 1e-7);
    EXPECT_LT(worst(x.k, g->dk), 1e-7);
    EXPECT_LT(worst(x.v, g->dv), 1e-7);
  }
}

TEST(LinearAttention, UnsupportedPartsAreNamed) {
  const std::vector<float> one(1, 1.0F), two(2, 1.0F);
  Problem problem;
  problem.masks = {{{WindowMask{1, 1, 1}}}};
  const auto forward = linear_attention_parallel(problem, Sizes{}, {one, one, one});
  ASSERT_FALSE(forward.ok());
  EXPECT_EQ(forward.error().reasons,
            (std::vector<std::string>{"pass forward", "masks other than causal"}));
  const auto state = linear_attention_parallel(parse("linear-step feature=elu1"), Sizes{},
                                               {one, one, one, one, two});
  ASSERT_FALSE(state.ok());
  EXPECT_EQ(state.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace tilewright::reference
