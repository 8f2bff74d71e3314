// Counting visible pairs and live tiles, against the masks' definitions pair by pair.
#include "io_model/visible_pairs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "io_model/closed_form.h"
#include "reference/visibility.h"

namespace tilewright::io_model {
namespace {

Result<VisiblePairs> pairs_of(const std::string& text) {
  const Result<Problem> problem = Problem::parse(text);
  if (!problem) return problem.error();
  return VisiblePairs::from_problem(*problem);
}

TEST(VisiblePairs, MatchTheReference) {
  int compared = 0;
  for (const std::string mask :
       {"", "causal", "causal=top-left", "window=5,0", "window=*,3", "window=4,4,dilation:3",
        "causal+prefix=7", "window=2,2+global=3", "window=1,1+global={0,17}",
        "longformer=window:6,global:{0,9}", "chunk=8", "window=9,2 causal",
        "bigbird=block:3,global:1,ends:0,random:2,seed:4", "bigbird=block:4"}) {
    for (const auto& [seqlen_q, seqlen_k] : {std::pair{31, 31}, {20, 37}, {37, 20}, {1, 5}}) {
      const std::string text =
          fmt::format("q{} k{} qk8 fp16{}{}", seqlen_q, seqlen_k, mask.empty() ? "" : " ", mask);
      SCOPED_TRACE(text);
      const Result<Problem> problem = Problem::parse(text);
      ASSERT_TRUE(problem.ok()) << problem.error().message;
      const auto truth = reference::make_visibility(*problem, seqlen_q, seqlen_k);
      const auto pairs = VisiblePairs::from_problem(*problem);
      ASSERT_TRUE(pairs.ok()) << pairs.error().message;
      ASSERT_TRUE(truth.ok()) << truth.error().message;
      ++compared;
      int64_t count = 0;
      for (int64_t i = 0; i < seqlen_q; ++i) {
        for (int64_t j = 0; j < seqlen_k; ++j) {
          EXPECT_EQ(pairs->visible(i, j), (*truth)(i, j)) << i << " " << j;
          count += (*truth)(i, j) ? 1 : 0;
        }
      }
      EXPECT_EQ(pairs->count().value(), count);
    }
  }
  EXPECT_EQ(compared, 4 * 14);
}

TEST(VisiblePairs, CoverCountsLiveTiles) {
  for (const std::string mask : {"", "causal", "window=4,4,dilation:3", "window=1,1+global=3"}) {
    const auto pairs = pairs_of(fmt::format("q29 k37 qk8 fp16{}{}", mask.empty() ? "" : " ", mask));
    ASSERT_TRUE(pairs.ok());
    for (const auto& [tile_rows, tile_cols] :
         {std::pair{1, 1}, {4, 3}, {3, 8}, {29, 37}, {50, 5}}) {
      int64_t tiles = 0, rows = 0, cols = 0, area = 0;
      for (int64_t i = 0; i < 29; i += tile_rows) {
        for (int64_t j = 0; j < 37; j += tile_cols) {
          const int64_t height = std::min<int64_t>(tile_rows, 29 - i);
          const int64_t width = std::min<int64_t>(tile_cols, 37 - j);
          bool live = false;
          for (int64_t r = i; r < i + height; ++r) {
            for (int64_t c = j; c < j + width; ++c) live = live || pairs->visible(r, c);
          }
          if (!live) continue;
          tiles += 1;
          rows += height;
          cols += width;
          area += height * width;
        }
      }
      const Cover cover = pairs->cover(tile_rows, tile_cols);
      EXPECT_EQ(cover.tiles.value(), tiles);
      EXPECT_EQ(cover.rows.value(), rows);
      EXPECT_EQ(cover.cols.value(), cols);
      EXPECT_EQ(cover.area.value(), area);
    }
  }
}

TEST(VisiblePairs, KnownCounts) {
  const auto count = [](const std::string& text) {
    const auto pairs = pairs_of(text);
    EXPECT_TRUE(pairs.ok()) << text;
    return pairs.ok() ? pairs->count().value() : -1;
  };
  EXPECT_EQ(count("q1000 k1000 qk64"), 1'000'000);
  EXPECT_EQ(count("q1000 k1000 qk64 causal"), 1000 * 1001 / 2);
  EXPECT_EQ(count("q4096 k4096 qk64 window=256,256"), 2'035'456);  // n (w + 1) - h (h + 1)
  EXPECT_EQ(count("q4096 k4096 qk64 window=511,0"), 4096 * 512 - 512 * 511 / 2);
  // 622 blocks of 64 x 64, by either convention for the global blocks.
  EXPECT_EQ(count("q4096 k4096 qk64 bigbird=block:64,window:3,global:2,ends:1,random:3,seed:0"),
            2'547'712);
  EXPECT_EQ(count("q4096 k4096 qk64 bigbird=block:64,window:3,global:2,ends:0,random:3,seed:5"),
            2'547'712);
}

TEST(VisiblePairs, LiveQueriesAndKeys) {
  const auto pairs = pairs_of("q10 k4 qk8 causal");  // queries 0..5 stand before the first key
  ASSERT_TRUE(pairs.ok());
  EXPECT_EQ(pairs->live_queries(), 4);
  EXPECT_EQ(pairs->live_keys(), 4);
  const auto first = pairs_of("q10 k10 qk8 mask='q >= k'");
  EXPECT_FALSE(first.ok());
}

TEST(VisiblePairs, MasksWithoutACountAreNamed) {
  for (const auto& [mask, word] : {std::pair<std::string, std::string>{"documents", "documents"},
                                   {"blocks=128", "blocks"},
                                   {"mask='q >= k'", "q >= k"}}) {
    const auto pairs = pairs_of(fmt::format("q64 k64 qk64 {}", mask));
    ASSERT_FALSE(pairs.ok()) << mask;
    EXPECT_EQ(pairs.error().code, ErrorCode::kUnsupportedProblem);
    EXPECT_NE(pairs.error().message.find(word), std::string::npos) << pairs.error().message;
  }
  const auto many = pairs_of("q99999999 k99999999 qk64 causal");
  ASSERT_FALSE(many.ok());
  EXPECT_EQ(many.error().code, ErrorCode::kOverflow);
  const auto absent = pairs_of("q64 qk64");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kInvalidArgument);
}

// Sizes up to the edge of 64 bits neither wrap nor hang.
TEST(Overflow, IsANamedError) {
  const Result<Problem> huge = Problem::parse("q4000000000 k4000000000 qk64 fp16");
  ASSERT_TRUE(huge.ok());
  const auto refused = Case::from_problem(*huge);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kOverflow);
  EXPECT_NE(refused.error().message.find("q4000000000"), std::string::npos);

  const Case large = Case::dense(1'000'000'000, 64);  // n^2 fits, n^2 d / b at b = 1 does not
  const auto count = best_count(Algorithm::kSmallCacheBackward, large, 8);
  ASSERT_FALSE(count.ok());
  EXPECT_EQ(count.error().code, ErrorCode::kOverflow);
  const auto fine = best_count(Algorithm::kSmallCacheBackward, large, 1 << 20);
  ASSERT_TRUE(fine.ok()) << fine.error().message;
}

}  // namespace
}  // namespace tilewright::io_model
