// The numbered facts about attention's cost that the notes ask to be tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <queue>
#include <random>

#include "core/arch.h"
#include "io_model/programs.h"
#include "io_model/report.h"
#include "tests/io_model/support.h"

namespace tilewright::io_model {
namespace {

VisiblePairs window(int64_t n, int64_t half, int64_t globals = 0) {
  return VisiblePairs::from_rows(n, n, [=](int64_t i) {
    if (i < globals) return std::vector<Span>{{0, n}};
    return std::vector<Span>{{i - half, i + half + 1}, {0, globals}};
  });
}

double count_of(const VisiblePairs& pairs) { return static_cast<double>(pairs.count().value()); }

double total(Algorithm algorithm, const Case& c, int64_t fast_words) {
  const auto traffic = best_count(algorithm, c, fast_words);
  EXPECT_TRUE(traffic.ok()) << info(algorithm).name;
  return traffic.ok() ? static_cast<double>(traffic->total().value()) : 0;
}

TEST(Facts, 1To3QuadraticGrowth) {
  EXPECT_EQ(VisiblePairs::dense(1000, 1000).count().value(), 1'000'000);
  using enum Algorithm;
  for (const Algorithm algorithm : {kStandardIdealForward, kFlash2Forward, kTwoPassBackward}) {
    EXPECT_EQ(matmul_flops(algorithm, Case::dense(2048, 64)),
              4 * matmul_flops(algorithm, Case::dense(1024, 64)));
  }
  EXPECT_EQ(Case::dense(2048, 64).shape.scores().value(),
            4 * Case::dense(1024, 64).shape.scores().value());
  EXPECT_EQ(matmul_flops(kFlash2Forward, Case::dense(131072, 64)),
            4096 * matmul_flops(kFlash2Forward, Case::dense(2048, 64)));
}

TEST(Facts, 4And6LocalWindow) {
  EXPECT_EQ(std::lround(100000.0 / 512), 195);
  const double ratio = 1e10 / count_of(window(100000, 256));
  EXPECT_NEAR(ratio, 195.18, 0.005);
  EXPECT_EQ(std::lround(ratio), 195);
  EXPECT_NEAR(100000.0 / 513, 194.93, 0.005);
  for (const int64_t n : {513, 4096}) {
    const int64_t h = 256;
    EXPECT_EQ(window(n, h).count().value(), n * (2 * h + 1) - h * (h + 1));
  }
}

TEST(Facts, 5EveryOtherOperationIsLinear) {
  const Case one = Case::dense(1024, 64), two = Case::dense(4096, 64);
  const double slope_flops = std::log(matmul_flops(Algorithm::kFlash2Forward, two) /
                                      matmul_flops(Algorithm::kFlash2Forward, one)) /
                             std::log(4.0);
  EXPECT_NEAR(slope_flops, 2, 1e-12);
  EXPECT_EQ(two.shape.q().value(), 4 * one.shape.q().value());
  EXPECT_EQ(two.shape.scores().value(), 16 * one.shape.scores().value());
}

TEST(Facts, 7WindowAndFewGlobalsAreLinear) {
  EXPECT_NEAR(count_of(window(65536, 64, 2)) / count_of(window(32768, 64, 2)), 2, 0.01);
}

// Distances from row 0 in the graph of visible pairs.
std::vector<int64_t> distances(const VisiblePairs& pairs) {
  const int64_t n = pairs.seqlen_q();
  std::vector<int64_t> distance(static_cast<size_t>(n), -1);
  std::queue<int64_t> queue({0});
  distance[0] = 0;
  while (!queue.empty()) {
    const int64_t from = queue.front();
    queue.pop();
    for (int64_t to = 0; to < n; ++to) {
      if (distance[static_cast<size_t>(to)] >= 0 || !pairs.visible(from, to)) continue;
      distance[static_cast<size_t>(to)] = distance[static_cast<size_t>(from)] + 1;
      queue.push(to);
    }
  }
  return distance;
}

TEST(Facts, 8RandomAndGlobalEdgesShortenPaths) {
  const int64_t n = 400, half = 3;
  const auto plain = distances(window(n, half));
  EXPECT_EQ(*std::max_element(plain.begin(), plain.end()), ceil_div(n - 1, half));
  const auto global = distances(window(n, half, 1));
  EXPECT_LE(*std::max_element(global.begin(), global.end()), 2);
  std::mt19937 engine(1);
  const VisiblePairs with_random = VisiblePairs::from_rows(n, n, [&](int64_t i) {
    const int64_t other = std::uniform_int_distribution<int64_t>(0, n - 1)(engine);
    return std::vector<Span>{{i - half, i + half + 1}, {other, other + 1}};
  });
  const auto random = distances(with_random);
  const auto mean = [&](const std::vector<int64_t>& d) {
    return static_cast<double>(std::accumulate(d.begin(), d.end(), int64_t{0})) / n;
  };
  EXPECT_LT(mean(random), mean(plain) / 5);
}

// phi(x) = elu(x) + 1
double feature(double x) { return x > 0 ? x + 1 : std::exp(x); }

TEST(Facts, 9And10LinearAttention) {
  const int64_t n = 30, d = 5;
  Matrix q = zeros(n, d), k = zeros(n, d), v = zeros(n, d);
  fill_random(q, 1), fill_random(k, 2), fill_random(v, 3);
  for (const bool causal : {false, true}) {
    // Recurrent: one d x d state and a d vector, whatever n is.
    Matrix state = zeros(d, d), recurrent = zeros(n, d);
    std::vector<double> norm(static_cast<size_t>(d), 0);
    const auto take = [&](int64_t j) {
      for (int64_t a = 0; a < d; ++a) {
        norm[static_cast<size_t>(a)] += feature(k.at(j, a));
        for (int64_t b = 0; b < d; ++b) state.at(a, b) += feature(k.at(j, a)) * v.at(j, b);
      }
    };
    for (int64_t j = 0; j < n && !causal; ++j) take(j);
    for (int64_t i = 0; i < n; ++i) {
      if (causal) take(i);
      double sum = 0;
      for (int64_t a = 0; a < d; ++a) {
        sum += feature(q.at(i, a)) * norm[static_cast<size_t>(a)];
        for (int64_t b = 0; b < d; ++b) recurrent.at(i, b) += feature(q.at(i, a)) * state.at(a, b);
      }
      for (int64_t b = 0; b < d; ++b) recurrent.at(i, b) /= sum;
    }
    EXPECT_EQ(std::ssize(state.values), d * d);
    // Parallel: n x n weights.
    Matrix parallel = zeros(n, d);
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < (causal ? i + 1 : n); ++j) {
        double weight = 0;
        for (int64_t a = 0; a < d; ++a) weight += feature(q.at(i, a)) * feature(k.at(j, a));
        sum += weight;
        for (int64_t b = 0; b < d; ++b) parallel.at(i, b) += weight * v.at(j, b);
      }
      for (int64_t b = 0; b < d; ++b) parallel.at(i, b) /= sum;
    }
    EXPECT_LT(max_difference(recurrent, parallel), 1e-13);
  }
}

// Weights of one query among n = d = 64 keys, all s times one-hot, scale 1/8.
TEST(Facts, 11LinearAttentionIsSmoother) {
  const double n = 64, d = 64;
  const auto entropy = [&](double own, double other) {
    const double sum = own + (n - 1) * other;
    return -own / sum * std::log(own / sum) - (n - 1) * other / sum * std::log(other / sum);
  };
  for (const double s : {4.0, 8.0, 16.0}) {
    const double softmax_own = std::exp(s * s / 8), softmax_other = 1;
    const double own = (s + 1) * (s + 1) + d - 1, other = 2 * (s + 1) + d - 2;
    EXPECT_GT(entropy(own, other), entropy(softmax_own, softmax_other)) << s;
    if (s == 8) {
      EXPECT_NEAR(softmax_own / (softmax_own + n - 1), 0.979, 0.0005);
      EXPECT_NEAR(own / (own + (n - 1) * other), 0.028, 0.0005);
    }
  }
}

// Against a long double computation; "exact up to rounding", never "bitwise".
TEST(Facts, 12FlashErrsNoMoreThanStandard) {
  const Case c = Case::dense(96, 16);
  double errors[2] = {0, 0};
  const Algorithm both[2] = {Algorithm::kStandardTiledForward, Algorithm::kFlash2Forward};
  for (int which = 0; which < 2; ++which) {
    Machine machine(1 << 20, Arithmetic::kOn);
    Attention x = random_attention(machine, c, 5);
    ASSERT_TRUE(
        run(both[which], machine, c, 0.25, uniform_tiles(both[which], c, {8, 8, 4}), x).ok());
    for (int64_t i = 0; i < 96; ++i) {
      std::vector<long double> weights(96);
      long double max = -HUGE_VALL, sum = 0;
      for (int64_t j = 0; j < 96; ++j) {
        long double dot = 0;
        for (int64_t col = 0; col < 16; ++col) {
          dot += static_cast<long double>(x.q.at(i, col)) * x.k.at(j, col);
        }
        weights[static_cast<size_t>(j)] = dot / 4;
        max = std::max(max, dot / 4);
      }
      for (long double& weight : weights) sum += weight = std::exp(weight - max);
      for (int64_t col = 0; col < 16; ++col) {
        long double out = 0;
        for (int64_t j = 0; j < 96; ++j) {
          out += weights[static_cast<size_t>(j)] / sum * x.v.at(j, col);
        }
        errors[which] =
            std::max(errors[which], static_cast<double>(std::fabs(out - x.out.at(i, col))));
      }
    }
  }
  EXPECT_GT(errors[1], 0);
  EXPECT_LE(errors[1], 1.5 * errors[0]);  // both a few ulp; which is larger is chance
}

TEST(Facts, 13MoreArithmeticFewerWords) {
  using enum Algorithm;
  const Case c = Case::dense(4096, 64);
  EXPECT_EQ(matmul_flops(kOnePassBackward, c) / matmul_flops(kStandardIdealBackward, c), 10.0 / 8);
  EXPECT_EQ((matmul_flops(kFlash2Forward, c) + matmul_flops(kOnePassBackward, c)) /
                (matmul_flops(kStandardIdealForward, c) + matmul_flops(kStandardIdealBackward, c)),
            14.0 / 12);
  EXPECT_EQ(matmul_flops(kSmallCacheBackward, c), matmul_flops(kOnePassBackward, c));
  EXPECT_LT(matmul_flops(kSmallCacheBackward, c), matmul_flops(kTwoPassBackward, c));
  for (const int64_t factor : {2, 4, 8}) {
    const int64_t fast_words = factor * 64 * 64;
    const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(fast_words + 1))) - 1;
    // Its row pass needs more memory than this; its products have the tiles of this memory.
    const auto standard = closed_form(kStandardTiledBackward, c,
                                      uniform_tiles(kStandardTiledBackward, c, {side, side, 1}));
    ASSERT_TRUE(standard.ok());
    EXPECT_LT(total(kOnePassBackward, c, fast_words),
              static_cast<double>(standard->total().value()));
  }
}

TEST(Facts, 14ExtraMemoryIsLinear) {
  using enum Algorithm;
  const auto growth = [](Algorithm algorithm) {
    return static_cast<double>(extra_slow_words(algorithm, Case::dense(8192, 64).shape).value()) /
           static_cast<double>(extra_slow_words(algorithm, Case::dense(4096, 64).shape).value());
  };
  for (const Algorithm algorithm :
       {kFlash1Forward, kFlash2Forward, kOnePassBackward, kTwoPassBackward}) {
    EXPECT_EQ(growth(algorithm), 2);
  }
  EXPECT_EQ(growth(kStandardTiledForward), 4);
  EXPECT_NEAR(growth(kSmallCacheBackward), 4, 0.01);  // the price of a small cache
}

// Any partition of the keys, in any order, with scores up to +-1e4 and blocks that show nothing.
TEST(Facts, 15OnlineSoftmaxTakesBlocksInAnyOrder) {
  std::mt19937 engine(9);
  const Case c = Case::dense(1, 1);
  Machine machine(1 << 20, Arithmetic::kOn);
  const Setting setting{machine, c, 1.0};
  for (int round = 0; round < 200; ++round) {
    std::vector<double> scores(60);
    std::uniform_real_distribution<double> uniform(-1, 1);
    const double size = round % 3 == 0 ? 1e4 : 5;
    for (double& score : scores) score = size * uniform(engine);
    for (size_t at = 0; at < scores.size(); ++at) {
      if (round % 4 == 0 && at / 10 % 2 == 0) scores[at] = kMinusInfinity;
    }
    const double max = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - max);
    std::shuffle(scores.begin(), scores.end(), engine);
    Tile row_max = machine.accumulator(1, 1, kMinusInfinity), row_sum = machine.accumulator(1, 1);
    for (size_t begin = 0; begin < scores.size();) {
      const size_t length = std::min<size_t>(1 + engine() % 13, scores.size() - begin);
      Tile block = machine.accumulator(1, static_cast<int64_t>(length));
      for (size_t at = 0; at < length; ++at) {
        block.at(0, static_cast<int64_t>(at)) = scores[begin + at];
      }
      online_softmax(setting, block, row_max, row_sum, [](int64_t, double) {});
      begin += length;
    }
    EXPECT_EQ(row_max.at(0), max);
    EXPECT_NEAR(row_sum.at(0), sum, 1e-13 * sum);
  }
}

TEST(Facts, 17SlopesOfTheTwoRegimes) {
  const int64_t d = 1024;
  const Case c = Case::dense(65536, d);
  const auto flash = slope(Algorithm::kTwoPassBackward, c, d * d, 16 * d * d);
  const auto small_cache = slope(Algorithm::kSmallCacheBackward, c, d * d / 1024, d * d);
  ASSERT_TRUE(flash.ok() && small_cache.ok());
  EXPECT_NEAR(flash->streamed, -1, 0.03);
  EXPECT_NEAR(flash->total, -1, 0.08);
  EXPECT_NEAR(small_cache->streamed, -0.5, 0.02);
  EXPECT_NEAR(small_cache->total, -0.5, 0.05);
}

// Flash over small-cache grows as d / sqrt(M).
TEST(Facts, 18FlashFallsBehindBelowDSquared) {
  const int64_t d = 16384;
  const Case c = Case::dense(65536, d);
  const auto ratio = [&](int64_t fast_words) {
    return total(Algorithm::kTwoPassBackward, c, fast_words) /
           total(Algorithm::kSmallCacheBackward, c, fast_words);
  };
  const double near = ratio(d * d / 64), far = ratio(d * d / 256);
  EXPECT_GT(near, 8);
  EXPECT_NEAR(far / near, 2, 0.2);  // sqrt(4); integer tiles and the n^2 terms do the rest
}

// FLOPs per byte against the ridge of every profile: standard attention below, flash above.
TEST(Facts, 21MemoryBoundUnlessTiled) {
  // Dense fp16 tensor FLOP/s with fp32 sums, from the data sheets.
  const std::map<std::string_view, double> peak = {{"h100", 989e12},    {"h200", 989e12},
                                                   {"a100", 312e12},    {"rtx3090", 71e12},
                                                   {"rtx4090", 165e12}, {"l40s", 362e12}};
  const Case c = Case::dense(4096, 64);
  for (const DeviceProfile& profile : device_profiles()) {
    const auto known = peak.find(profile.name);
    ASSERT_NE(known, peak.end()) << profile.name;
    const double ridge = known->second / profile.dram_bytes_per_second;
    const double flops = matmul_flops(Algorithm::kFlash2Forward, c);
    const int64_t l2_words = profile.arch.l2_bytes / 2;
    EXPECT_LT(flops / (2 * total(Algorithm::kStandardIdealForward, c, l2_words)), ridge);
    EXPECT_GT(flops / (2 * total(Algorithm::kFlash2Forward, c, l2_words)), ridge);
  }
}

}  // namespace
}  // namespace tilewright::io_model
