// The bounds of gradients let right kernels pass, whatever order they sum in, and catch each kind
// of wrong one.
#include "reference/gradient_bound.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <cmath>
#include <functional>
#include <limits>

#include "reference/score_row.h"
#include "tests/reference/support.h"

namespace tilewright::reference {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Tensors {
  std::vector<float> q, k, v, dout;
  BackwardInputs view() const { return {.forward = {q, k, v}, .dout = dout}; }
};

Tensors normal_tensors(const Sizes& sizes, uint64_t seed, Dtype dtype) {
  return {normal(sizes.q_elements(), 4 * seed, dtype),
          normal(sizes.k_elements(), 4 * seed + 1, dtype),
          normal(sizes.v_elements(), 4 * seed + 2, dtype),
          normal(sizes.out_elements(), 4 * seed + 3, dtype)};
}

// How a kernel may go about it, and what it may get wrong.
struct Style {
  bool dtype_weights = true;   // dS is made of P as rounded to the type, not of fp32's
  bool scale_first = false;    // the scale is in dS before it is rounded
  bool last_key_first = true;  // key tiles from last to first
  int64_t tile = 16;           // keys whose part of dQ is summed before it is added
  // Faults.
  bool without_delta = false, without_slope = false, without_scale = false;
  bool first_head_only = false, unrounded_lse = false;
  int64_t key_offset = 0;  // the mask's edge
};

// A flash-style backward: P from a base-2 exponential of scores less lse, out and lse as a forward
// kernel leaves them, fp32 sums.
PlainGradients kernel_like(const Problem& problem, const Sizes& sizes, const Tensors& x,
                           Dtype dtype, const Style& style) {
  const Forward forward = *attention_forward(problem, sizes, {x.q, x.k, x.v});
  const auto visible = *make_visibility(problem, sizes.seqlen_q, sizes.seqlen_k);
  const ScoreParameters parameters = score_parameters(problem, sizes);
  const RowOffsets at{sizes};
  const auto scale = static_cast<float>(style.without_scale ? 1.0 : parameters.scale);
  const auto qk = static_cast<size_t>(sizes.head_dim_qk),
             vd = static_cast<size_t>(sizes.head_dim_v);
  const int64_t group = sizes.num_heads_q / sizes.num_heads_kv;
  PlainGradients g{std::vector<float>(x.q.size()), std::vector<float>(x.k.size()),
                   std::vector<float>(x.v.size())};
  for (int64_t b = 0; b < sizes.batch; ++b) {
    for (int64_t h = 0; h < sizes.num_heads_q; ++h) {
      for (int64_t i = sizes.seqlen_q - 1; i >= 0; --i) {
        const RowIndex row{b, h, i};
        const auto lse = static_cast<float>(forward.lse[at.lse(row)]);
        const float lse_log2 = lse * 1.44269504F;
        float delta = 0;
        for (size_t c = vd; c-- > 0;) {
          delta += x.dout[at.out(row) + c] *
                   round_to(dtype, static_cast<float>(forward.out[at.out(row) + c]));
        }
        if (style.without_delta) delta = 0;
        std::vector<float> part(qk, 0.0F);
        int64_t in_part = 0;
        for (int64_t n = 0; n < sizes.seqlen_k; ++n) {
          const int64_t key = style.last_key_first ? sizes.seqlen_k - 1 - n : n;
          if (key + style.key_offset < 0 || key + style.key_offset >= sizes.seqlen_k ||
              !visible(i, key + style.key_offset)) {
            continue;
          }
          float dot = 0, dp = 0;
          for (size_t c = qk; c-- > 0;) dot += x.q[at.q(row) + c] * x.k[at.k(row, key) + c];
          for (size_t c = vd; c-- > 0;) dp += x.dout[at.out(row) + c] * x.v[at.v(row, key) + c];
          float score = static_cast<float>(parameters.scale) * dot, slope = 1;
          if (parameters.softcap != 0) {
            const auto cap = static_cast<float>(parameters.softcap);
            const float tanh = std::tanh(score / cap);
            score = cap * tanh;
            if (!style.without_slope) slope = 1 - tanh * tanh;
          }
          const float p = std::exp2(score * 1.44269504F - lse_log2), rounded = round_to(dtype, p);
          float ds = (style.dtype_weights ? rounded : p) * (dp - delta) * slope;
          ds = style.scale_first ? round_to(dtype, ds * scale) : round_to(dtype, ds);
          const bool drop = style.first_head_only && h % group != 0;
          for (size_t c = 0; c < qk; ++c) {
            part[c] += ds * x.k[at.k(row, key) + c];
            if (!drop) g.dk[at.k(row, key) + c] += ds * x.q[at.q(row) + c];
          }
          for (size_t c = 0; c < vd && !drop; ++c) {
            g.dv[at.v(row, key) + c] += rounded * x.dout[at.out(row) + c];
          }
          if (++in_part % style.tile != 0) continue;
          for (size_t c = 0; c < qk; ++c) {
            g.dq[at.q(row) + c] += part[c];
            part[c] = 0;
          }
        }
        for (size_t c = 0; c < qk; ++c) g.dq[at.q(row) + c] += part[c];
      }
    }
  }
  for (float& value : g.dq) value = round_to(dtype, style.scale_first ? value : value * scale);
  for (float& value : g.dk) value = round_to(dtype, style.scale_first ? value : value * scale);
  for (float& value : g.dv) value = round_to(dtype, value);
  return g;
}

// "" if all three pass, else which does not and why.
std::string failure(const PlainGradients& actual, const ExpectedGradients& expected, Dtype dtype) {
  const Comparison dq = compare(actual.dq, expected.dq, dtype);
  const Comparison dk = compare(actual.dk, expected.dk, dtype);
  const Comparison dv = compare(actual.dv, expected.dv, dtype);
  if (!dq.ok) return "dq: " + dq.detail;
  if (!dk.ok) return "dk: " + dk.detail;
  if (!dv.ok) return "dv: " + dv.detail;
  return "";
}

class GradientBound : public ::testing::TestWithParam<Dtype> {
 protected:
  void make(const std::string& text, uint64_t seed) {
    problem_ = parse(text);
    sizes_ = sizes_of(problem_);
    x_ = normal_tensors(sizes_, seed, GetParam());
    Result<ExpectedGradients> expected =
        expected_gradients(problem_, sizes_, x_.view(), GetParam());
    ASSERT_TRUE(expected.ok());
    expected_ = *std::move(expected);
  }
  std::string failure_of(const Style& style) const {
    return failure(kernel_like(problem_, sizes_, x_, GetParam(), style), expected_, GetParam());
  }

  Problem problem_;
  Sizes sizes_;
  Tensors x_;
  ExpectedGradients expected_;
};

TEST_P(GradientBound, RightKernelsPassAndTheBoundIsNotIdle) {
  double tightest[3] = {0, 0, 0};
  for (const char* text : {"backward b1 hq2 hkv1 q33 k45 qk24 v16 fp16 causal",
                           "backward b2 hq1 hkv1 q1 k1 qk8 v8 fp16",
                           "backward b1 hq8 hkv1 q17 k19 qk8 v40 fp16 softcap=2 scale=0.7",
                           "backward b1 hq1 hkv1 q65 k7 qk64 v8 fp16 window=3,2 scale=2",
                           "backward b1 hq2 hkv2 q7 k129 qk16 v24 fp16 scale=0.01"}) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE(testing::Message() << text << " seed " << seed);
      make(text, seed);
      for (const Style& style :
           {Style{}, Style{.dtype_weights = false, .scale_first = true, .tile = 7},
            Style{.scale_first = true, .last_key_first = false, .tile = 1}}) {
        const PlainGradients actual = kernel_like(problem_, sizes_, x_, GetParam(), style);
        EXPECT_EQ(failure(actual, expected_, GetParam()), "");
        tightest[0] =
            std::max(tightest[0], compare(actual.dq, expected_.dq, GetParam()).worst_ratio);
        tightest[1] =
            std::max(tightest[1], compare(actual.dk, expected_.dk, GetParam()).worst_ratio);
        tightest[2] =
            std::max(tightest[2], compare(actual.dv, expected_.dv, GetParam()).worst_ratio);
      }
      const PlainGradients plain{expected_.dq.plain, expected_.dk.plain, expected_.dv.plain};
      EXPECT_EQ(failure(plain, expected_, GetParam()), "");
    }
  }
  for (const double ratio : tightest) EXPECT_GT(ratio, 0.1);
}

// Also where a tensor has so few elements that the plain computation may err little by luck.
TEST_P(GradientBound, RightKernelsPassAtRandom) {
  const char* tail[] = {"", " causal", " softcap=1.5", " window=3,1 scale=1.3", " scale=0.02"};
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    std::mt19937_64 engine(seed);
    const auto draw = [&](uint64_t most) { return 1 + engine() % most; };
    const uint64_t heads = draw(2);
    const std::string text =
        fmt::format("backward b{} hq{} hkv{} q{} k{} qk{} v{} fp16{}", draw(2), heads * draw(3),
                    heads, draw(20), draw(30), 8 * draw(3), 8 * draw(3), tail[engine() % 5]);
    SCOPED_TRACE(testing::Message() << text << " seed " << seed);
    make(text, seed);
    const Style style{.dtype_weights = engine() % 2 == 0,
                      .scale_first = engine() % 2 == 0,
                      .last_key_first = engine() % 2 == 0,
                      .tile = static_cast<int64_t>(draw(16))};
    EXPECT_EQ(failure_of(style), "");
  }
}

TEST_P(GradientBound, FaultsAreCaught) {
  make("backward b1 hq4 hkv2 q33 k45 qk24 v16 fp16 causal softcap=3", 1);
  EXPECT_EQ(failure_of({}), "");
  EXPECT_NE(failure_of({.without_delta = true}), "");
  EXPECT_NE(failure_of({.without_slope = true}), "");
  EXPECT_NE(failure_of({.without_scale = true}), "");
  EXPECT_NE(failure_of({.first_head_only = true}), "");
  EXPECT_NE(failure_of({.key_offset = 1}), "");
  EXPECT_NE(failure_of({.key_offset = -1}), "");
}

TEST_P(GradientBound, NanNeverPasses) {
  make("backward b1 hq1 hkv1 q5 k7 qk8 v8 fp16", 2);
  for (int which = 0; which < 3; ++which) {
    PlainGradients actual{expected_.dq.plain, expected_.dk.plain, expected_.dv.plain};
    (which == 0 ? actual.dq : which == 1 ? actual.dk : actual.dv)[13] = kNan;
    EXPECT_NE(failure(actual, expected_, GetParam()), "");
  }
}

// NaN or infinity in an input: whatever the kernel made of it, nothing is certified.
TEST_P(GradientBound, AnInputThatIsNotFiniteCertifiesNothing) {
  make("backward b1 hq1 hkv1 q5 k7 qk8 v8 fp16", 3);
  for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
    for (std::vector<float>* tensor : {&x_.q, &x_.k, &x_.v, &x_.dout}) {
      const float before = std::exchange((*tensor)[7], bad);
      const auto expected = expected_gradients(problem_, sizes_, x_.view(), GetParam());
      (*tensor)[7] = before;
      ASSERT_TRUE(expected.ok());
      const PlainGradients zero{std::vector<float>(x_.q.size()), std::vector<float>(x_.k.size()),
                                std::vector<float>(x_.v.size())};
      EXPECT_NE(failure(zero, *expected, GetParam()), "");
      EXPECT_NE(failure({expected->dq.plain, expected->dk.plain, expected->dv.plain}, *expected,
                        GetParam()),
                "");
    }
  }
}

// "The bound proves nothing" is said of large scores, not of sums whose terms vanish: a row that
// sees one key has a dQ of exactly 0.
TEST_P(GradientBound, OnlyLargeScoresMakeItProveNothing) {
  const auto capped = [&](const std::string& text) {
    make(text, 6);
    return compare(expected_.dq.plain, expected_.dq, GetParam()).capped_elements +
           compare(expected_.dk.plain, expected_.dk, GetParam()).capped_elements +
           compare(expected_.dv.plain, expected_.dv, GetParam()).capped_elements;
  };
  EXPECT_EQ(capped("backward b1 hq1 hkv1 q9 k9 qk8 v8 fp16 causal"), 0);
  EXPECT_EQ(capped("backward b1 hq2 hkv1 q1 k1 qk8 v8 fp16"), 0);
  EXPECT_GT(capped("backward b1 hq1 hkv1 q9 k9 qk8 v8 fp16 causal scale=1e7"), 0);
}

// Scores of 1e8: fp32 cannot tell neighbours apart, and nothing is certified.
TEST_P(GradientBound, LargeScoresCertifyNothing) {
  make("backward b1 hq1 hkv1 q9 k9 qk8 v8 fp16 scale=1e8", 4);
  EXPECT_NE(failure_of({}), "");
  EXPECT_GT(compare(expected_.dv.plain, expected_.dv, GetParam()).worst_ratio, 1.0);
}

TEST_P(GradientBound, PartsOfTheKeysHaveNoBound) {
  make("backward b1 hq1 hkv1 q5 k7 qk8 v8 fp16", 5);
  BackwardInputs inputs = x_.view();
  const std::vector<double> out(x_.dout.size()), lse(5);
  inputs.out = out;
  inputs.lse = lse;
  EXPECT_FALSE(expected_gradients(problem_, sizes_, inputs, GetParam()).ok());
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GradientBound,
                         ::testing::Values(Dtype::kFloat16, Dtype::kBFloat16));

}  // namespace
}  // namespace tilewright::reference
