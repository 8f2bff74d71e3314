// Packed, paged and split calls against plain ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/backward.h"
#include "reference/combine.h"
#include "reference/error_bound.h"
#include "reference/packed.h"
#include "reference/paged.h"
#include "tests/reference/support.h"

namespace tilewright::reference {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Sequences of odd lengths, empty ones among them: no queries, no keys, neither.
const std::vector<int32_t> kCuQ = {0, 0, 5, 5, 12, 15}, kCuK = {0, 3, 3, 3, 10, 21};

struct Tensors {
  std::vector<float> q, k, v;
  Inputs view() const { return {q, k, v}; }
};

Tensors coarse_tensors(const Sizes& s, uint64_t seed) {
  return {coarse(s.q_elements(), seed), coarse(s.k_elements(), seed + 1),
          coarse(s.v_elements(), seed + 2)};
}

// The packed batch is one dense call under a documents mask whose documents are the sequences.
TEST(Packed, IsTheDocumentsMask) {
  const Sizes joined{.num_heads_q = 4,
                     .num_heads_kv = 2,
                     .seqlen_q = 15,
                     .seqlen_k = 21,
                     .head_dim_qk = 3,
                     .head_dim_v = 5};
  const Tensors x = coarse_tensors(joined, 1);
  std::vector<int32_t> ids_q, ids_k;
  for (int32_t b = 0; b < 5; ++b) {
    const auto at = static_cast<size_t>(b);
    ids_q.insert(ids_q.end(), static_cast<size_t>(kCuQ[at + 1] - kCuQ[at]), b);
    ids_k.insert(ids_k.end(), static_cast<size_t>(kCuK[at + 1] - kCuK[at]), b);
  }
  Inputs inputs = x.view();
  inputs.masks = {.documents_q = ids_q, .documents_k = ids_k};
  const auto dense = attention_forward(parse("documents"), joined, inputs);
  const auto packed = attention_forward_packed(parse("varlen"), joined, x.view(), kCuQ, kCuK);
  ASSERT_TRUE(dense.ok() && packed.ok());
  EXPECT_LT(max_difference(dense->out, packed->out), 1e-15);
  EXPECT_EQ(dense->lse, packed->lse);  // one sequence: [heads, rows] are both
  EXPECT_EQ(std::count(packed->lse.begin(), packed->lse.end(), kNone), 5 * 4);  // no keys
  EXPECT_FALSE(
      std::all_of(packed->out.begin(), packed->out.end(), [](double o) { return o == 0; }));
}

// Positions count from each sequence's own end.
TEST(Packed, CausalIsPerSequence) {
  const Sizes joined{.num_heads_q = 2,
                     .num_heads_kv = 1,
                     .seqlen_q = 15,
                     .seqlen_k = 21,
                     .head_dim_qk = 3,
                     .head_dim_v = 2};
  const Tensors x = coarse_tensors(joined, 2);
  const Problem problem = parse("varlen causal");
  const auto packed = attention_forward_packed(problem, joined, x.view(), kCuQ, kCuK);
  ASSERT_TRUE(packed.ok());
  // The last sequence by hand: queries 12..14, keys 10..20.
  Sizes last = joined;
  last.seqlen_q = 3, last.seqlen_k = 11;
  const auto tail = [](const std::vector<float>& t, int64_t count) {
    return std::vector<float>(t.end() - count, t.end());
  };
  const std::vector<float> q = tail(x.q, 3 * 2 * 3), k = tail(x.k, 11 * 3), v = tail(x.v, 11 * 2);
  const auto alone = attention_forward(problem, last, {q, k, v});
  ASSERT_TRUE(alone.ok());
  for (size_t i = 0; i < 3 * 2 * 2; ++i) EXPECT_EQ(packed->out[12 * 2 * 2 + i], alone->out[i]);
  const std::vector<float> lse(packed->lse.begin(), packed->lse.end());
  const auto sequences = packed_sequences(joined, kCuQ, kCuK);
  ASSERT_TRUE(sequences.ok());
  const std::vector<float> of_last = lse_of(sequences->back(), lse);
  EXPECT_LT(max_difference(of_last, alone->lse), 1e-6);
  EXPECT_TRUE(compare_lse(problem, last, of_last, *alone).ok);
}

TEST(Packed, BadPrefixSumsAreRefused) {
  const std::vector<int32_t> falling = {0, 5, 3}, late = {1, 2, 3}, good = {0, 2, 3}, none;
  for (const auto* bad : {&falling, &late, &none}) {
    EXPECT_FALSE(packed_sequences({}, *bad, good).ok());
    EXPECT_FALSE(packed_sequences({}, good, *bad).ok());
  }
  EXPECT_FALSE(packed_sequences({}, good, std::vector<int32_t>{0, 3}).ok());
  const auto empty = packed_sequences({}, std::vector<int32_t>{0}, std::vector<int32_t>{0});
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(empty->empty());
}

// Pages in any order, shared by two sequences, unused rows and table entries poisoned.
TEST(Paged, GathersTheKeysOfASequence) {
  const Sizes sizes{.batch = 3,
                    .num_heads_q = 2,
                    .num_heads_kv = 2,
                    .seqlen_q = 3,
                    .head_dim_qk = 3,
                    .head_dim_v = 1};
  const int64_t pages = 5, page_size = 4;
  std::vector<float> k(static_cast<size_t>(pages * page_size * 6)),
      v(static_cast<size_t>(pages * page_size * 2));
  std::iota(k.begin(), k.end(), 0.0F);
  std::iota(v.begin(), v.end(), 1000.0F);
  const std::vector<int32_t> table = {4, 1, -9, 1, 99, 99, 0, 3, 2}, used = {7, 0, 12};
  const PagedKeys cache{k, v, page_size, table, 3, used};
  for (int64_t b = 0; b < 3; ++b) {
    const auto keys = gather_keys(sizes, cache, b);
    ASSERT_TRUE(keys.ok()) << keys.error().message;
    EXPECT_EQ(keys->sizes.batch, 1);
    EXPECT_EQ(keys->sizes.seqlen_k, used[static_cast<size_t>(b)]);
    ASSERT_EQ(std::ssize(keys->k), keys->sizes.k_elements());
    for (int64_t j = 0; j < keys->sizes.seqlen_k; ++j) {
      const int64_t row = table[static_cast<size_t>(3 * b + j / 4)] * 4 + j % 4;
      for (int64_t i = 0; i < 6; ++i) {
        EXPECT_EQ(keys->k[static_cast<size_t>(j * 6 + i)], static_cast<float>(row * 6 + i));
      }
      EXPECT_EQ(keys->v[static_cast<size_t>(j * 2 + 1)], static_cast<float>(1000 + row * 2 + 1));
    }
  }
  const std::vector<int32_t> longer = {9, 0, 13};
  EXPECT_FALSE(gather_keys(sizes, {k, v, page_size, table, 3, longer}, 0).ok());  // page −9
  EXPECT_FALSE(gather_keys(sizes, {k, v, page_size, table, 3, longer}, 2).ok());  // 4 pages
}

// Any cut of the keys gives the whole, and so do the parts' gradients.
TEST(Combine, PartsOfAnyMaskMakeTheWhole) {
  for (const char* text :
       {"backward b2 hq4 hkv2 q7 k13 qk3 v5 fp16", "backward b1 hq2 hkv1 q9 k5 qk3 v2 fp16 causal",
        "backward b1 hq2 hkv1 q13 k13 qk3 v2 fp16 window=2,1 scale=30",
        "backward b1 hq3 hkv1 q11 k11 qk3 v2 fp16 bigbird=block:2,random:1 softcap=1.5"}) {
    SCOPED_TRACE(text);
    const Problem problem = parse(text);
    const Sizes sizes = sizes_of(problem);
    const Tensors x = coarse_tensors(sizes, 7);
    const std::vector<float> dout = coarse(sizes.out_elements(), 8);
    const auto expected = attention_forward(problem, sizes, x.view());
    const auto gradients = attention_backward(problem, sizes, {x.view(), dout});
    ASSERT_TRUE(expected.ok() && gradients.ok());
    const int64_t n = sizes.seqlen_k;
    for (const std::vector<int64_t>& cuts :
         {std::vector<int64_t>{0, n}, {0, 1, n}, {0, 0, 2, 2, 3, n, n}, {0, n / 2, n - 1, n}}) {
      std::vector<Partial> parts;
      std::vector<double> dq(x.q.size()), dk(x.k.size()), dv(x.v.size());
      for (size_t s = 0; s + 1 < cuts.size(); ++s) {
        Inputs part = x.view();
        part.masks.key_begin = cuts[s];
        part.masks.key_end = cuts[s + 1];
        const auto forward = attention_forward(problem, sizes, part);
        ASSERT_TRUE(forward.ok());
        parts.push_back({forward->out, forward->lse});
        const auto g =
            attention_backward(problem, sizes, {part, dout, expected->out, expected->lse});
        ASSERT_TRUE(g.ok());
        for (size_t i = 0; i < dq.size(); ++i) dq[i] += g->dq[i];
        for (size_t i = 0; i < dk.size(); ++i) dk[i] += g->dk[i];
        for (size_t i = 0; i < dv.size(); ++i) dv[i] += g->dv[i];
      }
      for (int order = 0; order < 2; ++order) {
        const Partial whole = combine(sizes, parts);
        EXPECT_LT(max_difference(whole.out, expected->out), 1e-14);
        for (size_t row = 0; row < whole.lse.size(); ++row) {
          if (expected->lse[row] == kNone) {
            EXPECT_EQ(whole.lse[row], kNone);
          } else {
            EXPECT_NEAR(whole.lse[row], expected->lse[row], 1e-14);
          }
        }
        std::reverse(parts.begin(), parts.end());
      }
      EXPECT_LT(max_difference(dq, gradients->dq), 1e-13);
      EXPECT_LT(max_difference(dk, gradients->dk), 1e-13);
      EXPECT_LT(max_difference(dv, gradients->dv), 1e-13);
    }
  }
}

TEST(Combine, PartsWithoutKeysAddNothing) {
  const Sizes sizes{.seqlen_q = 2, .head_dim_v = 1};
  const std::vector<Partial> parts = {{{kNan, kNan}, {kNone, kNone}}, {{3, kNan}, {-2000, kNone}}};
  const Partial whole = combine(sizes, parts);
  EXPECT_EQ(whole.out, (std::vector<double>{3, 0}));
  EXPECT_EQ(whole.lse, (std::vector<double>{-2000, kNone}));
}

// Online softmax (fact 15): partitions in any order, logits of ±1e4, blocks without a visible key.
TEST(Combine, OnlineSoftmaxInAnyOrder) {
  const Problem problem = parse("forward b1 hq1 hkv1 q3 k17 qk1 v3 fp16 scale=1");
  const Sizes sizes = sizes_of(problem);
  std::mt19937_64 engine(5);
  for (int round = 0; round < 50; ++round) {
    Tensors x = coarse_tensors(sizes, engine());
    for (float& key : x.k) key *= engine() % 3 == 0 ? 1e4F : 1.0F;
    const auto expected = attention_forward(problem, sizes, x.view());
    ASSERT_TRUE(expected.ok());
    std::vector<int64_t> cuts = {0, 17};
    for (int i = 0; i < 5; ++i) cuts.push_back(static_cast<int64_t>(engine() % 18));
    std::sort(cuts.begin(), cuts.end());
    std::vector<Partial> parts;
    for (size_t s = 0; s + 1 < cuts.size(); ++s) {
      Inputs part = x.view();
      part.masks.key_begin = cuts[s];
      part.masks.key_end = cuts[s + 1];
      const auto forward = attention_forward(problem, sizes, part);
      parts.push_back({forward->out, forward->lse});
    }
    std::shuffle(parts.begin(), parts.end(), engine);
    Partial running = parts[0];  // one after another, as a kernel walks key tiles
    for (size_t s = 1; s < parts.size(); ++s)
      running = combine(sizes, std::vector{running, parts[s]});
    EXPECT_LT(max_difference(running.out, expected->out), 1e-13);
    EXPECT_LT(max_difference(running.lse, expected->lse), 1e-11);
  }
}

}  // namespace
}  // namespace tilewright::reference
