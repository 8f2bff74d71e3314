// Masks with tables of their own (BigBird, documents, blocks), pair by pair at odd sizes against
// the definition written out; and how many pairs and tiles masks leave, against closed forms.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "core/bigbird.h"
#include "reference/visibility.h"
#include "tests/reference/support.h"

namespace tilewright::reference {
namespace {

Problem problem_with(Mask mask) {
  Problem problem;
  problem.masks = {{{std::move(mask)}}};
  return problem;
}

struct Lengths {
  int64_t q, k;
};
constexpr Lengths kLengths[] = {{31, 31}, {29, 37}, {37, 29}, {1, 13}, {13, 1}, {7, 5}};

TEST(VisibilityPairs, BigBird) {
  int64_t rows_with_random = 0;
  for (const bool ends : {true, false}) {
    for (const auto& [n_q, n_k] : kLengths) {
      for (const int64_t head : {0, 3}) {
        const BigBirdMask mask{.block = 3, .global = 1, .ends = ends, .random = 2, .seed = 5};
        const auto visible = make_visibility(problem_with(mask), n_q, n_k, {.head = head});
        ASSERT_TRUE(visible.ok());
        const int64_t m = (n_k + 2) / 3;
        for (int64_t i = 0; i < n_q; ++i) {
          const int64_t position = i + n_k - n_q, u = position / 3;
          std::set<int64_t> random;
          if (position >= 0) {
            for (const int64_t block : bigbird_random_blocks(mask, m, head, u))
              random.insert(block);
          }
          rows_with_random += random.size() == 2 ? 1 : 0;
          for (int64_t j = 0; j < n_k; ++j) {
            const int64_t block = j / 3;
            const auto global = [&](int64_t b) { return ends ? b == 0 || b == m - 1 : b == 0; };
            const bool expected =
                position >= 0 &&
                (global(u) || global(block) || std::abs(u - block) <= 1 || random.count(block) > 0);
            ASSERT_EQ((*visible)(i, j), expected) << n_q << " " << n_k << ": " << i << " " << j;
          }
        }
      }
    }
  }
  EXPECT_GT(rows_with_random, 200);
}

TEST(VisibilityPairs, Documents) {
  // Ids need not be sorted, and may stand on one side only.
  const std::vector<int32_t> ids_q = {0, 0, 1, 1, 1, -7, 9, 0, 1, 2, 2, 2, 2, 2};
  const std::vector<int32_t> ids_k = {0, 1, 1, 9, 0, 2, 2, 3, 1, 1};
  const MaskData data{.documents_q = ids_q, .documents_k = ids_k};
  for (const int64_t batch : {0, 1}) {
    const auto visible = make_visibility(problem_with(DocumentsMask{}), 7, 5, {batch, 4}, data);
    ASSERT_TRUE(visible.ok());
    for (int64_t i = 0; i < 7; ++i) {
      for (int64_t j = 0; j < 5; ++j) {
        EXPECT_EQ((*visible)(i, j), ids_q[static_cast<size_t>(batch * 7 + i)] ==
                                        ids_k[static_cast<size_t>(batch * 5 + j)]);
      }
    }
  }
  const auto beyond = make_visibility(problem_with(DocumentsMask{}), 7, 5, {.batch = 2}, data);
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(make_visibility(problem_with(DocumentsMask{}), 7, 5).ok());
}

TEST(VisibilityPairs, BlocksOverRawRows) {
  for (const auto& [n_q, n_k] : kLengths) {
    for (const int64_t size : {1, 4, 64}) {
      const int64_t rows = (n_q + size - 1) / size, cols = (n_k + size - 1) / size;
      for (const auto& [batches, heads] :
           {std::pair<int64_t, int64_t>{1, 1}, {2, 1}, {1, 3}, {2, 3}}) {
        std::vector<uint8_t> flags(static_cast<size_t>(batches * heads * rows * cols));
        std::mt19937_64 engine(flags.size());
        for (uint8_t& flag : flags) flag = static_cast<uint8_t>(engine() % 2 * 4);
        const MaskData data{.blocks = flags, .blocks_batch = batches, .blocks_heads = heads};
        for (int64_t batch = 0; batch < 2; ++batch) {
          for (int64_t head = 0; head < 3; ++head) {
            const auto visible =
                make_visibility(problem_with(BlocksMask{size}), n_q, n_k, {batch, head}, data);
            ASSERT_TRUE(visible.ok()) << visible.error().message;
            const int64_t b = batches == 1 ? 0 : batch, h = heads == 1 ? 0 : head;
            for (int64_t i = 0; i < n_q; ++i) {
              for (int64_t j = 0; j < n_k; ++j) {
                const int64_t at = ((b * heads + h) * rows + i / size) * cols + j / size;
                ASSERT_EQ((*visible)(i, j), flags[static_cast<size_t>(at)] != 0);
              }
            }
          }
        }
      }
    }
  }
  EXPECT_FALSE(make_visibility(problem_with(BlocksMask{4}), 7, 5).ok());
  const std::vector<uint8_t> three(3, 1);
  EXPECT_FALSE(make_visibility(problem_with(BlocksMask{4}), 7, 5, {}, {.blocks = three}).ok());
}

TEST(VisibilityPairs, LongformerIsWindowAndSymmetricGlobals) {
  for (const auto& [n_q, n_k] : kLengths) {
    const auto visible = make_visibility(problem_with(LongformerMask{7, {2, 11}}), n_q, n_k);
    ASSERT_TRUE(visible.ok());
    for (int64_t i = 0; i < n_q; ++i) {
      const int64_t position = i + n_k - n_q;
      for (int64_t j = 0; j < n_k; ++j) {
        const bool global = position == 2 || position == 11 || j == 2 || j == 11;
        ASSERT_EQ((*visible)(i, j), std::abs(position - j) <= 3 || global) << i << " " << j;
      }
    }
  }
}

// Each head of a BigBird call and each sequence of a documents call has keys of its own.
TEST(VisibilityPairs, HeadsAndSequencesDiffer) {
  const auto bigbird =
      HeadVisibilities::make(problem_with(BigBirdMask{.block = 2}), 2, 3, 64, 64, {});
  ASSERT_TRUE(bigbird.ok());
  int differ = 0;
  for (int64_t j = 0; j < 64; ++j) differ += bigbird->of(0, 0)(30, j) != bigbird->of(0, 1)(30, j);
  EXPECT_GT(differ, 0);
  for (int64_t j = 0; j < 64; ++j) EXPECT_EQ(bigbird->of(0, 2)(30, j), bigbird->of(1, 2)(30, j));
  const std::vector<int32_t> ids = {0, 0, 1, 1};
  const auto documents =
      HeadVisibilities::make(problem_with(DocumentsMask{}), 2, 2, 1, 2,
                             {.documents_q = std::span(ids).subspan(1, 2), .documents_k = ids});
  ASSERT_TRUE(documents.ok());
  EXPECT_TRUE(documents->of(0, 1)(0, 1));
  EXPECT_TRUE(documents->of(1, 0)(0, 0));
  EXPECT_FALSE(HeadVisibilities::make(problem_with(DocumentsMask{}), 3, 1, 1, 2,
                                      {.documents_q = ids, .documents_k = ids})
                   .ok());
}

int64_t pairs(const std::string& text, int64_t n) {
  const auto visible = make_visibility(parse(text), n, n);
  EXPECT_TRUE(visible.ok()) << text;
  return visible.ok() ? count_visible(*visible, n, n) : -1;
}

TEST(VisibilityPairs, CountsInClosedForm) {
  for (const int64_t n : {1, 2, 31, 64, 101}) {
    EXPECT_EQ(pairs("q1", n), n * n);
    EXPECT_EQ(pairs("causal", n), n * (n + 1) / 2);
    for (const int64_t half : {0, 1, 5}) {
      if (half >= n) continue;
      const int64_t w = 2 * half, one_sided = half + 1;
      EXPECT_EQ(pairs(fmt::format("window={},{}", half, half), n), n * (w + 1) - half * (half + 1));
      EXPECT_EQ(pairs(fmt::format("longformer=window:{}", w + 1), n),
                n * (w + 1) - half * (half + 1));
      EXPECT_EQ(pairs(fmt::format("window={},0", half), n),
                n * one_sided - one_sided * (one_sided - 1) / 2);
    }
    for (const int64_t c : {3, 8}) {  // full chunks and the rest
      EXPECT_EQ(pairs(fmt::format("chunk={}", c), n),
                n / c * (c * (c + 1) / 2) + (n % c) * (n % c + 1) / 2);
    }
    // A global token in the middle of a window: its row and column, once.
    if (n >= 31) {
      const int64_t g = 13, h = 2;
      EXPECT_EQ(pairs("longformer=window:4,global:{13}", n), n * 5 - h * (h + 1) + 2 * (n - 5));
      EXPECT_LT(g + h, n);
    }
  }
}

TEST(VisibilityPairs, LongformerAt4096) {
  EXPECT_EQ(pairs("longformer=window:512", 4096), 2'035'456);
}

TEST(VisibilityPairs, BigBirdBaseAt4096) {
  for (const char* text : {"bigbird=block:64", "bigbird=block:64,ends:0,seed:9"}) {
    const auto visible = make_visibility(parse(text), 4096, 4096, {.head = 11});
    ASSERT_TRUE(visible.ok());
    EXPECT_EQ(count_visible(*visible, 4096, 4096), 2'547'712);
    EXPECT_EQ(count_live_tiles(*visible, 4096, 4096, 64, 64), 622);
  }
}

}  // namespace
}  // namespace tilewright::reference
