// The machine's programs compute attention: against reference/, against gradients written the
// obvious way, and those against finite differences. Ragged sizes, rectangular shapes, masks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reference/attention.h"
#include "tests/io_model/support.h"

namespace tilewright::io_model {
namespace {

constexpr double kTolerance = 1e-11;  // fp64 sums of a few hundred terms of order 1
constexpr int64_t kPlenty = 1 << 20;

struct Sized {
  Shape shape;
  std::string mask;  // tokens of a problem's text
  Block block;
};

std::vector<Sized> sizes() {
  return {{{24, 24, 12, 12}, "", {4, 4, 2}},
          {{23, 19, 7, 11}, "", {5, 3, 2}},
          {{17, 33, 8, 8}, "causal", {4, 8, 3}},
          {{33, 17, 5, 9}, "causal", {4, 8, 1}},  // rows without a key
          {{31, 31, 6, 6}, "window=3,2", {7, 2, 2}},
          {{40, 40, 4, 4}, "causal window=8,0,dilation:2", {3, 5, 1}},
          {{29, 29, 3, 3}, "causal+prefix=5", {40, 40, 40}},
          {{1, 1, 1, 1}, "", {1, 1, 1}}};
}

Problem problem_of(const Sized& sized) {
  const Shape& s = sized.shape;
  const std::string text =
      fmt::format("backward q{} k{} qk{} v{} fp16{}{}", s.seqlen_q, s.seqlen_k, s.head_dim_qk,
                  s.head_dim_v, sized.mask.empty() ? "" : " ", sized.mask);
  const Result<Problem> problem = Problem::parse(text);
  EXPECT_TRUE(problem.ok()) << text;
  return problem.ok() ? *problem : Problem{};
}

TEST(MachineResults, ForwardMatchesReference) {
  for (const Sized& sized : sizes()) {
    SCOPED_TRACE(problem_of(sized).to_string());
    const Problem problem = problem_of(sized);
    const Result<Case> c = Case::from_problem(problem);
    ASSERT_TRUE(c.ok());
    const Shape& s = c->shape;
    const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim_qk));
    for (const AlgorithmInfo& row : algorithms()) {
      if (row.task != Task::kForward) continue;
      SCOPED_TRACE(row.name);
      Machine machine(kPlenty, Arithmetic::kOn);
      Attention x = random_attention(machine, *c, 7);
      const std::vector<float> q(x.q.values.begin(), x.q.values.end());
      const std::vector<float> k(x.k.values.begin(), x.k.values.end());
      const std::vector<float> v(x.v.values.begin(), x.v.values.end());
      Problem forward = problem;
      forward.pass = Pass::kForward;
      const auto truth = reference::attention_forward(
          forward, {1, 1, 1, s.seqlen_q, s.seqlen_k, s.head_dim_qk, s.head_dim_v}, {q, k, v});
      ASSERT_TRUE(truth.ok()) << truth.error().message;
      const Tiles tiles = uniform_tiles(row.algorithm, *c, sized.block);
      const auto traffic = run(row.algorithm, machine, *c, scale, tiles, x);
      ASSERT_TRUE(traffic.ok()) << traffic.error().message;
      EXPECT_LT(max_difference(x.out, {s.seqlen_q, s.head_dim_v, truth->out}), kTolerance);
      if (row.algorithm == Algorithm::kFlash2Forward ||
          row.algorithm == Algorithm::kSquareForward) {
        EXPECT_LT(max_difference(x.lse, {s.seqlen_q, 1, truth->lse}), kTolerance);
      }
      EXPECT_EQ(*traffic, *closed_form(row.algorithm, *c, tiles));
    }
  }
}

TEST(MachineResults, BackwardMatchesPlainGradients) {
  for (const Sized& sized : sizes()) {
    SCOPED_TRACE(problem_of(sized).to_string());
    const Result<Case> c = Case::from_problem(problem_of(sized));
    ASSERT_TRUE(c.ok());
    const double scale = 0.4;
    const Visible visible = [&](int64_t i, int64_t j) { return c->pairs.visible(i, j); };
    for (const AlgorithmInfo& row : algorithms()) {
      if (row.task != Task::kBackward) continue;
      SCOPED_TRACE(row.name);
      Machine machine(kPlenty, Arithmetic::kOn);
      Attention x = random_attention(machine, *c, 11);
      const Gradients truth = plain_gradients(x.q, x.k, x.v, x.d_out, scale, visible);
      give_forward_results(x, truth, row.given_probabilities);
      const Tiles tiles = uniform_tiles(row.algorithm, *c, sized.block);
      const auto traffic = run(row.algorithm, machine, *c, scale, tiles, x);
      ASSERT_TRUE(traffic.ok()) << traffic.error().message;
      EXPECT_LT(max_difference(x.dq, truth.dq), kTolerance);
      EXPECT_LT(max_difference(x.dk, truth.dk), kTolerance);
      EXPECT_LT(max_difference(x.dv, truth.dv), kTolerance);
      EXPECT_EQ(*traffic, *closed_form(row.algorithm, *c, tiles));
      EXPECT_EQ(machine.resident(), 0);
    }
  }
}

// The gradients that the programs are compared with, by central differences of <dO, O>.
TEST(MachineResults, PlainGradientsMatchFiniteDifferences) {
  const Case c = Case::dense(6, 3);
  const double scale = 0.7, step = 1e-5;
  const Visible visible = [](int64_t i, int64_t j) { return j <= i + 1; };
  Machine machine(kPlenty, Arithmetic::kOn);
  Attention x = random_attention(machine, c, 3);
  const Gradients g = plain_gradients(x.q, x.k, x.v, x.d_out, scale, visible);
  const auto loss = [&] {
    const Gradients now = plain_attention(x.q, x.k, x.v, scale, visible);
    double sum = 0;
    for (size_t at = 0; at < now.out.values.size(); ++at) {
      sum += now.out.values[at] * x.d_out.values[at];
    }
    return sum;
  };
  const std::pair<Matrix*, const Matrix*> inputs[] = {{&x.q, &g.dq}, {&x.k, &g.dk}, {&x.v, &g.dv}};
  for (const auto& [input, gradient] : inputs) {
    for (size_t at = 0; at < input->values.size(); ++at) {
      const double kept = input->values[at];
      input->values[at] = kept + step;
      const double above = loss();
      input->values[at] = kept - step;
      const double below = loss();
      input->values[at] = kept;
      EXPECT_NEAR((above - below) / (2 * step), gradient->values[at], 1e-8);
    }
  }
}

Matrix times(const Matrix& a, const Matrix& b) {
  Matrix c = zeros(a.rows, b.cols);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t k = 0; k < a.cols; ++k) {
      for (int64_t j = 0; j < b.cols; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return c;
}

// 1/2 |softmax(scale A1 X A2^T) (A3 Y) - E|^2
double weights_loss(const Weights& w, double scale, const Visible& visible) {
  const Gradients g = plain_attention(times(w.a1, w.x), w.a2, times(w.a3, w.y), scale, visible);
  double sum = 0;
  for (size_t at = 0; at < g.out.values.size(); ++at) {
    const double difference = g.out.values[at] - w.e.values[at];
    sum += difference * difference / 2;
  }
  return sum;
}

void expect_gradient(Weights& w, Matrix Weights::*input, const Matrix& gradient, double scale,
                     const Visible& visible) {
  const double step = 1e-5;
  for (size_t at = 0; at < (w.*input).values.size(); ++at) {
    const double kept = (w.*input).values[at];
    (w.*input).values[at] = kept + step;
    const double above = weights_loss(w, scale, visible);
    (w.*input).values[at] = kept - step;
    const double below = weights_loss(w, scale, visible);
    (w.*input).values[at] = kept;
    EXPECT_NEAR((above - below) / (2 * step), gradient.values[at],
                1e-6 * (1 + std::fabs(gradient.values[at])));
  }
}

TEST(MachineResults, WeightGradientsMatchFiniteDifferences) {
  using enum Algorithm;
  const double scale = 0.3;
  for (const bool causal : {false, true}) {
    Case c = Case::dense(11, 4);
    if (causal) {
      c.pairs = VisiblePairs::from_rows(11, 11, [](int64_t i) {
        return std::vector<Span>{{0, i + 1}};
      });
    }
    const Visible visible = [&](int64_t i, int64_t j) { return !causal || j <= i; };
    for (const Algorithm algorithm :
         {kLargeCacheWeights, kSmallCacheWeights, kSmallCacheBothWeights}) {
      SCOPED_TRACE(info(algorithm).name);
      Machine machine(kPlenty, Arithmetic::kOn);
      Weights w = make_weights(machine, c.shape);
      unsigned seed = 20;
      for (Matrix* input : {&w.a1, &w.a2, &w.a3, &w.e, &w.x, &w.y}) fill_random(*input, ++seed);
      const Tiles tiles = uniform_tiles(algorithm, c, {3, 2, 2});
      const auto traffic = run(algorithm, machine, c, scale, tiles, w);
      ASSERT_TRUE(traffic.ok()) << traffic.error().message;
      EXPECT_EQ(*traffic, *closed_form(algorithm, c, tiles));
      expect_gradient(w, &Weights::x, w.dx, scale, visible);
      if (algorithm == kSmallCacheBothWeights) {
        expect_gradient(w, &Weights::y, w.dy, scale, visible);
      }
    }
  }
}

// Ragged tiles: closed form, loops and execution agree in reads, writes and peak, with plain and
// with double-width accumulators, over a pseudo-random sweep.
TEST(RaggedCounts, AllWaysAgree) {
  std::mt19937 engine(5);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  };
  for (int round = 0; round < 60; ++round) {
    Case c{{pick(1, 40), pick(1, 40), pick(1, 12), pick(1, 12)}, VisiblePairs::dense(1, 1), 1};
    c.accumulator_words = pick(1, 2);
    const int64_t reach = pick(0, 20), gap = pick(1, 3);
    c.pairs = round % 3 == 0
                  ? VisiblePairs::dense(c.shape.seqlen_q, c.shape.seqlen_k)
                  : VisiblePairs::from_rows(c.shape.seqlen_q, c.shape.seqlen_k, [&](int64_t i) {
                      std::vector<Span> keys;
                      for (int64_t j = i - reach; j < i + 3; j += gap) keys.push_back({j, j + 1});
                      return keys;
                    });
    for (const AlgorithmInfo& row : algorithms()) {
      if (row.task == Task::kWeights) {
        c.shape.seqlen_k = c.shape.seqlen_q;
        c.shape.head_dim_v = c.shape.head_dim_qk;
        c.pairs = VisiblePairs::dense(c.shape.seqlen_q, c.shape.seqlen_k);
      }
      Tiles tiles = uniform_tiles(row.algorithm, c, {});
      for (Block& block : tiles) block = {pick(1, 12), pick(1, 12), pick(1, 5)};
      SCOPED_TRACE(std::string(row.name) + ", round " + std::to_string(round));
      const auto formula = closed_form(row.algorithm, c, tiles);
      const auto loops = count_by_loops(row.algorithm, c, kPlenty, tiles);
      ASSERT_TRUE(formula.ok() && loops.ok());
      EXPECT_EQ(loops->reads.value(), formula->reads.value());
      EXPECT_EQ(loops->writes.value(), formula->writes.value());
      EXPECT_LE(loops->peak, formula->peak);
      Machine machine(kPlenty, Arithmetic::kOn, c.accumulator_words);
      Weights weights = make_weights(machine, c.shape);
      Attention attention = make_attention(machine, c.shape);
      const auto executed = row.task == Task::kWeights
                                ? run(row.algorithm, machine, c, 1.0, tiles, weights)
                                : run(row.algorithm, machine, c, 1.0, tiles, attention);
      ASSERT_TRUE(executed.ok());
      EXPECT_EQ(executed->reads.value(), formula->reads.value());
      EXPECT_EQ(executed->writes.value(), formula->writes.value());
      EXPECT_EQ(executed->peak.value(), loops->peak.value());
    }
  }
}

TEST(Machine, ReportsTheFirstExcess) {
  const Case c = Case::dense(24, 12);
  const Tiles tiles(5, Block{4, 4, 2});  // peak 40
  EXPECT_TRUE(count_by_loops(Algorithm::kSmallCacheBackward, c, 40, tiles).ok());
  const auto refused = count_by_loops(Algorithm::kSmallCacheBackward, c, 39, tiles);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(refused.error().message, "40 words were resident in a fast memory of 39");
}

TEST(Machine, CountsReadsAndWritesApart) {
  Machine machine(100, Arithmetic::kOn, 2);
  Matrix matrix = machine.matrix(4, 6, 1.5);
  {
    const Tile tile = machine.load(matrix, {1, 4}, {2, 6});
    EXPECT_EQ(machine.reads(), 12);
    EXPECT_EQ(machine.resident(), 12);
    const Tile sum = machine.accumulator(3, 4);
    EXPECT_EQ(machine.resident(), 12 + 24);  // two words an element
    machine.store(sum, matrix, {0, 3}, {0, 4});
    EXPECT_EQ(machine.writes(), 12);
  }
  EXPECT_EQ(machine.resident(), 0);
  EXPECT_EQ(machine.peak(), 36);
  EXPECT_EQ(matrix.at(2, 3), 0.0);
  EXPECT_EQ(matrix.at(3, 3), 1.5);
}

}  // namespace
}  // namespace tilewright::io_model
