// The golden counts: executed word by word, counted by loops and by closed form, all exactly.
#include <gtest/gtest.h>

#include <string>

#include "tests/io_model/support.h"

namespace tilewright::io_model {
namespace {

struct Golden {
  Algorithm algorithm;
  int64_t seqlen, head_dim;
  Tiles tiles;
  int64_t total;
  int64_t reads = 0, writes = 0, peak = 0;  // 0: not stated
};

constexpr int64_t kPlenty = 1 << 20;

std::vector<Golden> golden_counts() {
  using enum Algorithm;
  const Block flash{3, 4, 1}, four{4, 4, 2};
  return {
      {kFlash1Forward, 24, 12, {flash}, 6336, 4320, 2016},
      {kFlash2Forward, 24, 12, {flash}, 5208, 4896, 312},
      {kSquareForward, 24, 12, Tiles(2, four), 7824, 6936, 888},
      {kOnePassBackward, 24, 12, {Block{}, flash}, 8952, 6624, 2328, 330},
      {kTwoPassBackward, 24, 12, {Block{}, {1, 4}, {6, 3}}, 8712, 7824, 888, 300},
      {kSmallCacheBackward, 24, 12, Tiles(5, four), 20520, 18480, 2040, 40},
      {kStandardTiledBackward, 24, 12, Tiles(5, four), 16992},
      {kSmallCacheBothWeights, 24, 12, Tiles(9, four), 28632},
      {kSmallCacheWeights, 24, 12, Tiles(7, four), 22440},
      {kLargeCacheWeights, 24, 6, Tiles(4, Block{4, 3, 1}), 5100, 0, 0, 158},
      // Below 7 d + 4 = 88 words, where one-pass flash cannot run.
      {kSmallCacheBackward, 24, 12, Tiles(5, Block{4, 4, 1}), 20520, 0, 0, 32},
      {kSmallCacheBackward, 24, 12, Tiles(5, Block{6, 6, 1}), 14760},
      {kSmallCacheBackward, 24, 12, Tiles(5, Block{8, 8, 1}), 12744},
  };
}

void expect_golden(const Golden& golden, const Traffic& traffic, const char* how) {
  SCOPED_TRACE(std::string(info(golden.algorithm).name) + ", " + how);
  EXPECT_EQ(traffic.total().value(), golden.total);
  if (golden.reads != 0) {
    EXPECT_EQ(traffic.reads.value(), golden.reads);
  }
  if (golden.writes != 0) {
    EXPECT_EQ(traffic.writes.value(), golden.writes);
  }
  if (golden.peak != 0) {
    EXPECT_EQ(traffic.peak.value(), golden.peak);
  }
}

Result<Traffic> execute(Algorithm algorithm, const Case& problem_case, int64_t fast_words,
                        const Tiles& tiles) {
  Machine machine(fast_words, Arithmetic::kOn, problem_case.accumulator_words);
  if (info(algorithm).task == Task::kWeights) {
    Weights tensors = make_weights(machine, problem_case.shape);
    return run(algorithm, machine, problem_case, 1.0, tiles, tensors);
  }
  Attention tensors = random_attention(machine, problem_case, 1);
  return run(algorithm, machine, problem_case, 1.0, tiles, tensors);
}

TEST(GoldenCounts, ByEveryWayOfCounting) {
  for (const Golden& golden : golden_counts()) {
    const Case c = Case::dense(golden.seqlen, golden.head_dim);
    const auto formula = closed_form(golden.algorithm, c, golden.tiles);
    ASSERT_TRUE(formula.ok());
    expect_golden(golden, *formula, "closed form");
    const auto loops = count_by_loops(golden.algorithm, c, kPlenty, golden.tiles);
    ASSERT_TRUE(loops.ok());
    expect_golden(golden, *loops, "counting loops");
    const auto executed = execute(golden.algorithm, c, kPlenty, golden.tiles);
    ASSERT_TRUE(executed.ok());
    expect_golden(golden, *executed, "executed");
  }
}

TEST(GoldenCounts, BlockSparseForward) {
  Case c = Case::dense(24, 6);
  c.pairs = VisiblePairs::from_rows(24, 24, [](int64_t query) {
    std::vector<Span> keys;
    for (int64_t block = 0; block < 8; ++block) {
      if ((query / 4 + block) % 2 == 0 || block == 0) keys.push_back({3 * block, 3 * block + 3});
    }
    return keys;
  });
  const Tiles tiles{{4, 3, 1}};
  const auto formula = closed_form(Algorithm::kFlash2Forward, c, tiles);
  ASSERT_TRUE(formula.ok());
  EXPECT_EQ(formula->total().value(), 1284);
  const auto executed = execute(Algorithm::kFlash2Forward, c, kPlenty, tiles);
  ASSERT_TRUE(executed.ok());
  EXPECT_EQ(executed->total().value(), 1284);
}

TEST(GoldenCounts, SmallCacheRunsWhereFlashCannot) {
  const Case c = Case::dense(24, 12);
  for (const auto& [fast_words, side] : {std::pair{40, 4}, {64, 6}, {100, 8}}) {
    EXPECT_TRUE(
        execute(Algorithm::kSmallCacheBackward, c, fast_words, Tiles(5, Block{side, side, 1})).ok())
        << fast_words;
  }
  EXPECT_EQ(least_memory(Algorithm::kOnePassBackward, c).status().ok(), true);
  EXPECT_EQ(*least_memory(Algorithm::kOnePassBackward, c), 7 * 12 + 4);
  EXPECT_EQ(*least_memory(Algorithm::kTwoPassBackward, c), 6 * 12 + 4);
}

// n = 256, d = 64: best tiles for M, then executed with real arithmetic.
TEST(GoldenCounts, EmulatorSizedCases) {
  using enum Algorithm;
  const Case c = Case::dense(256, 64);
  struct Row {
    int64_t fast_words;
    int64_t flash, square, one_pass, two_pass, small_cache;
  };
  for (const Row& row : {Row{512, 2851072, 918016, 17006848, 12862208, 2360064},
                         Row{1024, 1245440, 655872, 5778688, 5107456, 1704704},
                         Row{2048, 622848, 492032, 2542336, 2231552, 1311488},
                         Row{4096, 327936, 377344, 1287424, 1173248, 1016576},
                         Row{8192, 196864, 295424, 692992, 677120, 819968}}) {
    for (const auto& [algorithm, total] : {std::pair{kFlash2Forward, row.flash},
                                           {kSquareForward, row.square},
                                           {kOnePassBackward, row.one_pass},
                                           {kTwoPassBackward, row.two_pass},
                                           {kSmallCacheBackward, row.small_cache}}) {
      SCOPED_TRACE(std::string(info(algorithm).name) + " at " + std::to_string(row.fast_words));
      const auto tiles = best_tiles(algorithm, c, row.fast_words);
      ASSERT_TRUE(tiles.ok());
      const auto formula = closed_form(algorithm, c, *tiles);
      ASSERT_TRUE(formula.ok());
      EXPECT_EQ(formula->total().value(), total);
      const auto executed = execute(algorithm, c, row.fast_words, *tiles);
      ASSERT_TRUE(executed.ok()) << executed.error().message;
      EXPECT_EQ(executed->total().value(), total);
      EXPECT_EQ(executed->peak, formula->peak);
    }
  }
}

}  // namespace
}  // namespace tilewright::io_model
