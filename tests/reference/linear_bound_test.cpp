// The bounds of linear attention let right kernels of each form pass and catch wrong ones.
#include "reference/linear_bound.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/score_row.h"
#include "tests/reference/support.h"

namespace tilewright::reference {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Tensors {
  std::vector<float> q, k, v, state, normalizer;
  LinearInputs view() const { return {q, k, v, state, normalizer}; }
};

struct Outputs {
  std::vector<float> out, state, normalizer;
};

// How a kernel may go about it, and what it may get wrong.
struct Style {
  int64_t chunk = 16;
  bool dtype_state = true;    // the state is rounded where it is multiplied with queries
  bool dtype_feature = true;  // features are rounded, also those that enter the state
  // Faults.
  bool without_normalizer = false, key_too_many = false, stale_state = false;
  bool without_first_state = false, wrong_feature = false;
};

Outputs kernel_like(const Problem& problem, const Sizes& s, const Tensors& x, Dtype dtype,
                    const Style& style) {
  const RowOffsets at{s};
  const auto qk = static_cast<size_t>(s.head_dim_qk), vd = static_cast<size_t>(s.head_dim_v);
  const bool identity = problem.feature == FeatureMap::kIdentity;
  const auto phi = [&](float value) {
    if (!identity) value = value > 0 ? value + 1 : std::exp(value) - (style.wrong_feature ? 1 : 0);
    return style.dtype_feature ? round_to(dtype, value) : value;
  };
  const auto held = [&](float value) { return style.dtype_state ? round_to(dtype, value) : value; };
  Outputs r{std::vector<float>(static_cast<size_t>(s.out_elements())), x.state, x.normalizer};
  r.state.resize(static_cast<size_t>(s.batch * s.num_heads_kv) * qk * vd);
  if (!identity) r.normalizer.resize(static_cast<size_t>(s.batch * s.num_heads_kv) * qk);
  if (style.without_first_state) std::fill(r.state.begin(), r.state.end(), 0.0F);
  const int64_t group = s.num_heads_q / s.num_heads_kv;
  for (int64_t flat = 0; flat < s.batch * s.num_heads_kv; ++flat) {
    float* state = r.state.data() + static_cast<size_t>(flat) * qk * vd;
    float* z = identity ? nullptr : r.normalizer.data() + static_cast<size_t>(flat) * qk;
    const int64_t b = flat / s.num_heads_kv, first_head = flat % s.num_heads_kv * group;
    int64_t in_state = 0;
    const auto take = [&](int64_t key) {
      const RowIndex row{b, first_head, 0};
      for (size_t a = 0; a < qk; ++a) {
        const float k = phi(x.k[at.k(row, key) + a]);
        for (size_t c = 0; c < vd; ++c) state[a * vd + c] += k * x.v[at.v(row, key) + c];
        if (z) z[a] += k;
      }
    };
    for (int64_t begin = 0; begin < s.seqlen_q; begin += style.chunk) {
      const int64_t seen = num_visible_keys(problem, s, begin);
      const int64_t before = problem.masks.empty() ? s.seqlen_k : std::max<int64_t>(seen - 1, 0);
      for (; in_state < before; ++in_state) {
        if (!style.stale_state || in_state + 1 < before) take(in_state);
      }
      for (int64_t i = begin; i < std::min(begin + style.chunk, s.seqlen_q); ++i) {
        for (int64_t h = first_head; h < first_head + group; ++h) {
          const RowIndex row{b, h, i};
          std::vector<float> sum(vd, 0.0F);
          float below = 1e-6F;
          for (size_t a = 0; a < qk; ++a) {
            const float q = phi(x.q[at.q(row) + a]);
            for (size_t c = 0; c < vd; ++c) sum[c] += q * held(state[a * vd + c]);
            if (z) below += q * held(z[a]);
          }
          const int64_t end =
              std::min(num_visible_keys(problem, s, i) + (style.key_too_many ? 1 : 0), s.seqlen_k);
          for (int64_t j = in_state; j < end; ++j) {
            float weight = 0;
            for (size_t a = qk; a-- > 0;) {
              weight += phi(x.q[at.q(row) + a]) * phi(x.k[at.k(row, j) + a]);
            }
            weight = round_to(dtype, weight);
            below += weight;
            for (size_t c = 0; c < vd; ++c) sum[c] += weight * x.v[at.v(row, j) + c];
          }
          if (identity || style.without_normalizer) below = 1;
          for (size_t c = 0; c < vd; ++c) r.out[at.out(row) + c] = round_to(dtype, sum[c] / below);
        }
      }
    }
    for (; in_state < s.seqlen_k; ++in_state) take(in_state);
  }
  return r;
}

std::string failure(const Outputs& actual, const ExpectedLinear& expected, Dtype dtype) {
  const Comparison out = compare(actual.out, expected.out, dtype);
  const Comparison state = compare(actual.state, expected.state, Dtype::kFloat32);
  const Comparison normalizer = compare(actual.normalizer, expected.normalizer, Dtype::kFloat32);
  if (!out.ok) return "out: " + out.detail;
  if (!state.ok) return "state: " + state.detail;
  if (!normalizer.ok) return "normalizer: " + normalizer.detail;
  return "";
}

class LinearBound : public ::testing::TestWithParam<Dtype> {
 protected:
  void make(const std::string& text, uint64_t seed, bool with_state) {
    problem_ = parse(text);
    sizes_ = sizes_of(problem_);
    const Sizes& s = sizes_;
    x_ = {normal(s.q_elements(), 5 * seed, GetParam()),
          normal(s.k_elements(), 5 * seed + 1, GetParam()),
          normal(s.v_elements(), 5 * seed + 2, GetParam()),
          {},
          {}};
    const int64_t rows = s.batch * s.num_heads_kv * s.head_dim_qk;
    if (with_state) x_.state = normal(rows * s.head_dim_v, 5 * seed + 3);
    if (with_state && has_normalizer(problem_)) {
      x_.normalizer = normal(rows, 5 * seed + 4);
      for (float& value : x_.normalizer) value = std::fabs(value);
    }
    auto expected = expected_linear(problem_, sizes_, x_.view(), GetParam());
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    expected_ = *std::move(expected);
  }
  std::string failure_of(const Style& style) const {
    return failure(kernel_like(problem_, sizes_, x_, GetParam(), style), expected_, GetParam());
  }

  Problem problem_;
  Sizes sizes_;
  Tensors x_;
  ExpectedLinear expected_;
};

TEST_P(LinearBound, RightKernelsPassAtRandom) {
  double tightest_out = 0, tightest_state = 0;
  const char* tails[] = {" feature=elu1", " causal feature=elu1", " feature=identity",
                         " causal feature=identity"};
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    std::mt19937_64 engine(seed);
    const auto draw = [&](uint64_t most) { return 1 + engine() % most; };
    const uint64_t heads = draw(2);
    const std::string text = fmt::format("linear-forward b{} hq{} hkv{} q{} k{} qk{} v{} fp16{}",
                                         draw(2), heads * draw(3), heads, draw(40), draw(40),
                                         8 * draw(3), 8 * draw(3), tails[engine() % 4]);
    SCOPED_TRACE(testing::Message() << text << " seed " << seed);
    make(text, seed, engine() % 2 == 0);
    const Style style{.chunk = static_cast<int64_t>(draw(20)),
                      .dtype_state = engine() % 2 == 0,
                      .dtype_feature = engine() % 4 != 0};
    const Outputs actual = kernel_like(problem_, sizes_, x_, GetParam(), style);
    EXPECT_EQ(failure(actual, expected_, GetParam()), "");
    EXPECT_EQ(failure({expected_.out.plain, expected_.state.plain, expected_.normalizer.plain},
                      expected_, GetParam()),
              "");
    tightest_out =
        std::max(tightest_out, compare(actual.out, expected_.out, GetParam()).worst_ratio);
    tightest_state = std::max(tightest_state,
                              compare(actual.state, expected_.state, Dtype::kFloat32).worst_ratio);
  }
  EXPECT_GT(tightest_out, 0.1);
  EXPECT_GT(tightest_state, 0.1);
}

TEST_P(LinearBound, FaultsAreCaught) {
  make("linear-forward b1 hq4 hkv2 q33 k33 qk24 v16 fp16 causal feature=elu1", 1, true);
  EXPECT_EQ(failure_of({}), "");
  EXPECT_NE(failure_of({.without_normalizer = true}), "");
  EXPECT_NE(failure_of({.key_too_many = true}), "");
  EXPECT_NE(failure_of({.stale_state = true}), "");
  EXPECT_NE(failure_of({.without_first_state = true}), "");
  EXPECT_NE(failure_of({.wrong_feature = true}), "");
  make("linear-forward b1 hq2 hkv2 q33 k33 qk16 v8 fp16 causal feature=identity", 2, true);
  EXPECT_EQ(failure_of({}), "");
  EXPECT_NE(failure_of({.key_too_many = true}), "");
  EXPECT_NE(failure_of({.stale_state = true}), "");
}

TEST_P(LinearBound, WhatIsNotFiniteNeverPasses) {
  make("linear-forward b1 hq1 hkv1 q5 k7 qk8 v8 fp16 feature=elu1", 2, true);
  for (int which = 0; which < 3; ++which) {
    Outputs actual{expected_.out.plain, expected_.state.plain, expected_.normalizer.plain};
    (which == 0 ? actual.out : which == 1 ? actual.state : actual.normalizer)[5] = kNan;
    EXPECT_NE(failure(actual, expected_, GetParam()), "");
  }
  for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
    for (std::vector<float>* tensor : {&x_.q, &x_.k, &x_.v, &x_.state, &x_.normalizer}) {
      const float before = std::exchange((*tensor)[7], bad);
      const auto expected = expected_linear(problem_, sizes_, x_.view(), GetParam());
      (*tensor)[7] = before;
      ASSERT_TRUE(expected.ok());
      const Outputs zero{std::vector<float>(40), std::vector<float>(64), std::vector<float>(8)};
      EXPECT_NE(failure(zero, *expected, GetParam()), "");
      EXPECT_NE(failure({expected->out.plain, expected->state.plain, expected->normalizer.plain},
                        *expected, GetParam()),
                "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, LinearBound, ::testing::Values(Dtype::kFloat16, Dtype::kBFloat16));

}  // namespace
}  // namespace tilewright::reference
