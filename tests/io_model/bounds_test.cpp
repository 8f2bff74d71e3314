// No count lies below its bound over a grid of more than 10,000 problems and memories; errors
// planted in either are noticed.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "tests/io_model/support.h"

namespace tilewright::io_model {
namespace {

struct Masked {
  std::string name;
  std::function<VisiblePairs(int64_t)> pairs;
};

std::vector<Masked> masks() {
  const auto rows = [](std::function<std::vector<Span>(int64_t, int64_t)> keys) {
    return [keys](int64_t n) {
      return VisiblePairs::from_rows(n, n, [&](int64_t i) { return keys(i, n); });
    };
  };
  using Spans = std::vector<Span>;
  return {{"dense", [](int64_t n) { return VisiblePairs::dense(n, n); }},
          {"causal", rows([](int64_t i, int64_t) {
             return Spans{{0, i + 1}};
           })},
          {"window", rows([](int64_t i, int64_t) {
             return Spans{{i - 5, i + 6}};
           })},
          {"diagonal", rows([](int64_t i, int64_t) {
             return Spans{{i, i + 1}};
           })},
          {"half the queries", rows([](int64_t i, int64_t n) {
             return i % 2 == 0 ? Spans{{0, n}} : Spans{};
           })},
          {"every third key", rows([](int64_t i, int64_t n) {
             Spans keys;
             for (int64_t j = i % 3; j < n; j += 3) keys.push_back({j, j + 1});
             return keys;
           })}};
}

// What a test plants into the honest grid.
struct Planted {
  std::string_view line = {};  // of the bounds, multiplied by `factor`
  double factor = 1;
  std::function<double(Algorithm, const Case&)> words_left_out = [](Algorithm, const Case&) {
    return 0.0;
  };
};

struct GridResult {
  int64_t points = 0, comparisons = 0, violations = 0;
  std::map<std::string, double> least_ratio;  // of count to bound, per line
  std::string first;
};

void compare(const Case& c, int64_t fast_words, const Planted& planted, const std::string& name,
             GridResult& result) {
  ++result.points;
  for (const AlgorithmInfo& row : algorithms()) {
    const auto traffic = best_count(row.algorithm, c, fast_words);
    if (!traffic) continue;  // does not fit, as its own tests show
    const double count =
        static_cast<double>(traffic->total().value()) - planted.words_left_out(row.algorithm, c);
    for (const BoundLine& line : lower_bound(row.algorithm, c, fast_words).lines) {
      const double bound = line.words * (line.name == planted.line ? planted.factor : 1);
      ++result.comparisons;
      if (line.words > 0) {
        double& least = result.least_ratio.emplace(line.name, 1e30).first->second;
        least = std::min(least, count / bound);
      }
      if (count >= bound) continue;
      if (result.violations++ == 0) {
        result.first = std::string(row.name) + " against " + std::string(line.name) + ": " + name +
                       " n " + std::to_string(c.shape.seqlen_q) + " d " +
                       std::to_string(c.shape.head_dim_qk) + " M " + std::to_string(fast_words);
      }
    }
  }
}

void walk_small(const Planted& planted, GridResult& result) {
  for (const Masked& mask : masks()) {
    for (const int64_t seqlen : {1, 2, 5, 16, 33, 64}) {
      const VisiblePairs pairs = mask.pairs(seqlen);
      for (const int64_t head_dim : {1, 2, 3, 8, 16, 40, 128}) {
        const Case c{{seqlen, seqlen, head_dim, head_dim}, pairs};
        for (int step = 0; step < 36; ++step) {
          const auto fast_words = static_cast<int64_t>(5 * std::exp2(step / 2.25));
          compare(c, fast_words, planted, mask.name, result);
        }
      }
    }
  }
}

// Dense and large, where the asymptotic lines count.
void walk_large(const Planted& planted, GridResult& result) {
  for (const int64_t seqlen : {256, 1024, 4096, 65536}) {
    for (const int64_t head_dim : {16, 64, 100, 256, 512, 1024}) {
      for (int step = 0; step < 48; ++step) {
        const auto fast_words = static_cast<int64_t>(16 * std::exp2(step / 2.0));
        compare(Case::dense(seqlen, head_dim), fast_words, planted, "dense", result);
      }
    }
  }
}

TEST(Bounds, NoCountIsBelow) {
  GridResult result;
  walk_small({}, result);
  walk_large({}, result);
  EXPECT_GE(result.points, 10'000);
  EXPECT_EQ(result.violations, 0) << result.first;
  std::printf("%lld points, %lld comparisons\n", static_cast<long long>(result.points),
              static_cast<long long>(result.comparisons));
  for (const auto& [line, ratio] : result.least_ratio) {
    std::printf("%-20s least count / bound %.3f\n", line.c_str(), ratio);
  }
}

// Rectangular shapes, where the bounds take the smaller head dim.
TEST(Bounds, NoRectangularCountIsBelow) {
  GridResult result;
  for (const auto& [seqlen_q, seqlen_k] : {std::pair{1, 500}, {64, 500}, {500, 64}}) {
    for (const auto& [head_dim_qk, head_dim_v] : {std::pair{64, 16}, {16, 64}, {192, 128}}) {
      const Case c{{seqlen_q, seqlen_k, head_dim_qk, head_dim_v},
                   VisiblePairs::dense(seqlen_q, seqlen_k)};
      for (int64_t fast_words = 8; fast_words < 1'000'000; fast_words *= 2) {
        compare(c, fast_words, {}, "rectangular", result);
      }
    }
  }
  EXPECT_EQ(result.violations, 0) << result.first;
  EXPECT_GT(result.comparisons, 1000);
}

TEST(PlantedErrors, ADoubledBoundIsCaught) {
  // A doubled "pairs" or "partition" line stays below every known algorithm; the lemma tests and
  // the worked table catch those.
  for (const std::string_view line : {"compulsory", "products"}) {
    GridResult result;
    walk_large({.line = line, .factor = 2}, result);
    EXPECT_GT(result.violations, 0) << line;
  }
}

TEST(PlantedErrors, ACountTooLowByOneTermIsCaught) {
  // Forgetting to write the outputs puts the flash algorithms below what is compulsory.
  GridResult result;
  walk_large({.words_left_out =
                  [](Algorithm algorithm, const Case& c) {
                    const bool forward = info(algorithm).task == Task::kForward;
                    const Count outputs =
                        forward ? c.shape.out() : c.shape.q() + c.shape.k() + c.shape.v();
                    return static_cast<double>(outputs.value());
                  }},
             result);
  EXPECT_GT(result.violations, 0);
  // And a stage left out of any closed form parts it from the machine.
  const Case c = Case::dense(20, 6);
  for (const AlgorithmInfo& row : algorithms()) {
    const Tiles tiles = uniform_tiles(row.algorithm, c, {4, 3, 2});
    const auto loops = count_by_loops(row.algorithm, c, 100000, tiles);
    ASSERT_TRUE(loops.ok());
    const std::vector<Stage> all = stages(row.algorithm, c);
    for (size_t left_out = 0; left_out < all.size(); ++left_out) {
      Traffic traffic;
      for (size_t at = 0; at < all.size(); ++at) {
        if (at != left_out) traffic = traffic + all[at].traffic(tiles[at]);
      }
      EXPECT_FALSE(traffic.total() == loops->total()) << row.name << " " << all[left_out].name;
    }
  }
}

TEST(Theorems, AsStated) {
  // Both branches meet at M = d^2, where theorem 1.1 says n^2 + n d.
  EXPECT_DOUBLE_EQ(theorem_1_1(4096, 64, 64 * 64), 4096.0 * 4096 + 4096.0 * 64);
  EXPECT_DOUBLE_EQ(theorem_1_1(4096, 64, 4 * 64 * 64), (4096.0 * 4096 + 4096.0 * 64) / 4);
  EXPECT_DOUBLE_EQ(theorem_1_1(4096, 64, 16 * 16), (4096.0 * 4096 + 4096.0 * 64) * 4);
  // Dense inputs: theorem 4.5 is the n^2 terms of theorem 1.1, and switches at d^2.
  const double n = 4096, d = 64;
  for (const double fast_words : {256.0, 4096.0, 65536.0}) {
    EXPECT_DOUBLE_EQ(theorem_4_5(n * d, n * n, fast_words),
                     std::min(n * n * d * d / fast_words, n * n * d / std::sqrt(fast_words)));
  }
  EXPECT_DOUBLE_EQ(theorem_4_5_switch(n * d, n * n), d * d);
}

TEST(Bounds, OfAnIssueExample) {
  const Case c = Case::dense(4096, 512);
  const LowerBound bound = lower_bound(Algorithm::kSmallCacheBackward, c, 48 * 512);
  EXPECT_DOUBLE_EQ(bound.conservative() * 2, 28.0 * (1 << 20));
  EXPECT_EQ(bound.name_of(Standing::kPublished), "compulsory");
  EXPECT_NEAR(bound.conjectured() * 2 / (1 << 20), 377, 0.5);
  EXPECT_LT(bound.derived(), bound.conjectured());
  // The partition line by hand: n^2 d^2 / (M + 4 d^2) - M.
  for (const BoundLine& line : bound.lines) {
    if (line.name != "partition") continue;
    const double m = 48 * 512, square = 512.0 * 512;
    EXPECT_DOUBLE_EQ(line.words, 4096.0 * 4096 * square / (m + 4 * square) - m);
  }
}

}  // namespace
}  // namespace tilewright::io_model
