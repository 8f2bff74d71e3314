// The worked table of the notes at n = 4096 in MiB of 2-byte words, by closed form and by the
// counting loops; crossovers; the 16-row table.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "io_model/crossover.h"
#include "tests/io_model/support.h"

namespace tilewright::io_model {
namespace {

using enum Algorithm;

double mebibytes(double words) { return words * 2 / (1 << 20); }

struct Row {
  int64_t head_dim, kibibytes;
  double flash, square, forward_bound, one_pass, two_pass, small_cache, kept, backward_bound;
};

// As printed: counts as whole MiB, bounds with at most three digits.
constexpr Row kTable[] = {
    {64, 48, 23, 97, 6.6, 92, 82, 265, 206, 11.2},
    {64, 100, 12, 86, 3.8, 45, 42, 241, 190, 7.3},
    {64, 164, 8, 81, 2.5, 29, 28, 230, 183, 5.0},
    {64, 227, 6, 79, 2.0, 23, 22, 224, 180, 3.8},
    {64, 256, 6, 78, 2.0, 21, 21, 222, 179, 3.5},
    {128, 48, 90, 141, 14.8, 359, 318, 371, 284, 37.1},
    {128, 100, 44, 113, 9.6, 175, 158, 304, 235, 15.9},
    {128, 164, 28, 101, 7.1, 110, 99, 276, 215, 11.8},
    {128, 227, 22, 95, 5.7, 82, 75, 262, 205, 9.9},
    {128, 256, 20, 93, 5.2, 74, 69, 258, 203, 9.2},
    {256, 48, 356, 250, 53.1, 1447, 1269, 646, 504, 133},
    {256, 100, 172, 182, 27.3, 685, 611, 476, 370, 68.5},
    {256, 164, 108, 150, 16.5, 421, 375, 396, 306, 41.5},
    {256, 227, 80, 136, 12.4, 309, 279, 362, 280, 29.0},
    {256, 256, 72, 130, 11.7, 277, 251, 348, 270, 25.2},
    {512, 48, 1440, 468, 151, 5998, 5218, 1196, 944, 377},
    {512, 100, 680, 332, 86.5, 2763, 2431, 856, 676, 217},
    {512, 164, 416, 268, 57.5, 1674, 1470, 696, 548, 144},
    {512, 227, 304, 240, 43.2, 1225, 1069, 628, 496, 108},
    {512, 256, 272, 228, 38.7, 1081, 957, 600, 476, 97.2},
    {1024, 48, 5984, 896, 368, 26301, 22581, 2272, 1800, 921},
    {1024, 100, 2752, 632, 226, 11990, 10142, 1616, 1288, 565},
    {1024, 164, 1664, 504, 159, 6963, 6059, 1296, 1032, 398},
    {1024, 227, 1200, 440, 125, 4914, 4282, 1136, 904, 313},
    {1024, 256, 1072, 408, 114, 4306, 3770, 1056, 840, 285},
};

TEST(WorkedTable, ByClosedFormAndByCountingLoops) {
  for (const Row& row : kTable) {
    const Case c = Case::dense(4096, row.head_dim);
    const int64_t fast_words = row.kibibytes * 1024 / 2;
    for (const auto& [algorithm, printed] : {std::pair{kFlash2Forward, row.flash},
                                             {kSquareForward, row.square},
                                             {kOnePassBackward, row.one_pass},
                                             {kTwoPassBackward, row.two_pass},
                                             {kSmallCacheBackward, row.small_cache},
                                             {kSmallCacheKeptBackward, row.kept}}) {
      SCOPED_TRACE(std::string(info(algorithm).name) + " d " + std::to_string(row.head_dim) + ", " +
                   std::to_string(row.kibibytes) + " KiB");
      const auto tiles = best_tiles(algorithm, c, fast_words);
      ASSERT_TRUE(tiles.ok());
      const auto formula = closed_form(algorithm, c, *tiles);
      const auto loops = count_by_loops(algorithm, c, fast_words, *tiles);
      ASSERT_TRUE(formula.ok() && loops.ok());
      EXPECT_EQ(loops->reads.value(), formula->reads.value());
      EXPECT_EQ(loops->writes.value(), formula->writes.value());
      EXPECT_EQ(loops->peak.value(), formula->peak.value());
      EXPECT_NEAR(mebibytes(static_cast<double>(formula->total().value())), printed, 0.55);
    }
  }
}

TEST(WorkedTable, Bounds) {
  for (const Row& row : kTable) {
    SCOPED_TRACE("d " + std::to_string(row.head_dim) + ", " + std::to_string(row.kibibytes));
    const Case c = Case::dense(4096, row.head_dim);
    const int64_t fast_words = row.kibibytes * 1024 / 2;
    const auto half_unit = [](double printed) {
      return printed >= 100 ? 0.55 : 0.055;  // one digit after the point below 100
    };
    EXPECT_NEAR(mebibytes(lower_bound(kFlash2Forward, c, fast_words).conjectured()),
                row.forward_bound, half_unit(row.forward_bound));
    EXPECT_NEAR(mebibytes(lower_bound(kTwoPassBackward, c, fast_words).conjectured()),
                row.backward_bound, half_unit(row.backward_bound));
  }
}

TEST(WorkedTable, SixteenRowGranularity) {
  struct Sixteen {
    int64_t head_dim, kibibytes;
    double small_cache, flash;
  };
  for (const Sixteen& row : {Sixteen{256, 164, 410, 419},
                             {256, 100, 506, 716},
                             {512, 227, 636, 1229},
                             {512, 48, 1296, 14265},
                             {128, 48, 396, 389}}) {
    const Case c = Case::dense(4096, row.head_dim);
    const Granularity sixteen{.tile_step = 1, .streamed = 16, .depth = 16};
    const int64_t fast_words = row.kibibytes * 512;
    const auto small_cache = best_count(kSmallCacheBackward, c, fast_words, sixteen);
    const auto flash = best_count(kTwoPassBackward, c, fast_words, sixteen);
    ASSERT_TRUE(small_cache.ok() && flash.ok());
    EXPECT_NEAR(mebibytes(static_cast<double>(small_cache->total().value())), row.small_cache, 0.5);
    EXPECT_NEAR(mebibytes(static_cast<double>(flash->total().value())), row.flash, 0.5);
  }
  EXPECT_FALSE(best_count(kOnePassBackward, Case::dense(4096, 512), 48 * 512,
                          {.tile_step = 1, .streamed = 16, .depth = 16})
                   .ok());
}

TEST(Crossovers, InsideTheirBrackets) {
  struct Expected {
    Algorithm flash, small_cache;
    double equation, low, high;
  };
  for (const Expected& row : {Expected{kFlash2Forward, kSquareForward, 0.686, 0.68, 0.70},
                              {kTwoPassBackward, kSmallCacheBackward, 1.13, 1.16, 1.22},
                              {kOnePassBackward, kSmallCacheBackward, 1.40, 1.40, 1.48},
                              {kTwoPassBackward, kSmallCacheKeptBackward, 1.73, 1.73, 1.80}}) {
    SCOPED_TRACE(info(row.flash).name);
    EXPECT_NEAR(crossover_equation(row.flash, row.small_cache), row.equation, 0.005);
    const auto scan = crossover_scan(row.flash, row.small_cache, Case::dense(16384, 512));
    ASSERT_TRUE(scan.ok());
    const double square = 512.0 * 512.0;
    EXPECT_GE(static_cast<double>(*scan) / square, row.low);
    EXPECT_LE(static_cast<double>(*scan) / square, row.high);
  }
  // With the tile of the theorem's proof, b = sqrt(M / 4).
  EXPECT_NEAR(crossover_equation(kFlash2Forward, kSquareForward, 2.0), 0.22, 0.005);
  EXPECT_NEAR(crossover_equation(kTwoPassBackward, kSmallCacheBackward, 2.0), 0.41, 0.005);
}

}  // namespace
}  // namespace tilewright::io_model
