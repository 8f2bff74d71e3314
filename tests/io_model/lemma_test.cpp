// The segment lemmas behind the bounds, by exhaustive search on small grids: the most pairs and the
// most products that one segment of T operations can finish, over every choice of the words it
// holds, never exceed the bound's F. The searches drop the order of operations, which only makes
// them find more. Pebbling whole graphs that are small enough to search refutes nothing: there the
// compulsory line decides.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "tests/io_model/support.h"

namespace tilewright::io_model {
namespace {

double as_double(int64_t value) { return static_cast<double>(value); }

// --- Pairs. Words of different rows of one matrix are alike, so "every choice of words" is every
// choice of how many whole rows of each matrix are held; other words only serve charges. ---

// A part of a 2M-partition: 2M words enter (dominators), 2M words stay (minimum set). It touches
// the pairs of whole rows, and one more for every word over the pairs that enters or stays.
int64_t most_touched(int64_t fast_words, int64_t head_dim, int64_t seqlen) {
  int64_t most = 0;
  for (int64_t queries = 0; queries <= seqlen; ++queries) {
    for (int64_t keys = 0; keys <= seqlen; ++keys) {
      const int64_t entering = 2 * fast_words - (queries + keys) * head_dim;
      if (entering < 0) continue;
      most = std::max(most, std::min(queries * keys + entering + 2 * fast_words, seqlen * seqlen));
    }
  }
  return most;
}

// Forward: rows of Q, K and V among the M + T words held; M + T charges at the end.
int64_t most_forward_pairs_found(int64_t words, int64_t head_dim, int64_t seqlen) {
  int64_t most = 0;
  for (int64_t queries = 0; queries <= seqlen; ++queries) {
    for (int64_t keys = 0; keys <= seqlen; ++keys) {
      if ((queries + 2 * keys) * head_dim > words) continue;
      most = std::max(most, std::min(queries * keys + words, seqlen * seqlen));
    }
  }
  return most;
}

// Backward, in halves: a pair evaluated once for both of its uses counts 2, one of two evaluations
// 1. Rows of Q, dO, K, V; shared evaluations also carry rows of dQ, dK and dV across the boundary.
int64_t most_backward_halves_found(int64_t fast_words, int64_t operations, int64_t head_dim,
                                   int64_t seqlen) {
  const int64_t words = fast_words + operations, crossing = words + fast_words;
  int64_t most = 0;
  for (int64_t queries = 0; queries <= seqlen; ++queries) {
    for (int64_t keys = 0; keys <= seqlen; ++keys) {
      if (2 * (queries + keys) * head_dim > words) continue;
      for (int64_t shared_q = 0; shared_q <= queries; ++shared_q) {
        for (int64_t shared_k = 0; shared_k <= keys; ++shared_k) {
          if ((3 * shared_q + 4 * shared_k) * head_dim > crossing) continue;
          most = std::max(most, queries * keys + shared_q * shared_k + 2 * words);
        }
      }
    }
  }
  return most;
}

TEST(SegmentLemmas, PartitionTouchesFewPairs) {
  bool tight = false;
  for (const int64_t seqlen : {5, 12, 40}) {
    for (const int64_t head_dim : {1, 2, 3}) {
      for (int64_t fast_words = 1; fast_words <= 60; ++fast_words) {
        const double m = as_double(fast_words), d = as_double(head_dim);
        const double allowed = m * m / (d * d) + 4 * m;
        const double found = as_double(most_touched(fast_words, head_dim, seqlen));
        EXPECT_LE(found, allowed) << seqlen << " " << head_dim << " " << fast_words;
        tight = tight || found > allowed / 2;
      }
    }
  }
  EXPECT_TRUE(tight) << "half of F, a doubled bound, would pass as well";
}

TEST(SegmentLemmas, ForwardPairs) {
  bool tight = false;
  for (const int64_t seqlen : {5, 12, 40}) {
    for (const int64_t head_dim : {1, 2, 3}) {
      for (int64_t fast_words = 1; fast_words <= 20; ++fast_words) {
        for (int64_t operations = 1; operations <= 40; ++operations) {
          const BoundTerms terms{.head_dim = as_double(head_dim),
                                 .fast_words = as_double(fast_words)};
          const double allowed = most_forward_pairs(terms, as_double(operations));
          const double found =
              as_double(most_forward_pairs_found(fast_words + operations, head_dim, seqlen));
          EXPECT_LE(found, allowed);
          tight = tight || found > 0.99 * allowed;
        }
      }
    }
  }
  EXPECT_TRUE(tight);
}

TEST(SegmentLemmas, BackwardPairs) {
  bool tight = false;
  for (const int64_t seqlen : {5, 12}) {
    for (const int64_t head_dim : {1, 2}) {
      for (int64_t fast_words = 1; fast_words <= 25; ++fast_words) {
        for (int64_t operations = 1; operations <= 40; ++operations) {
          const BoundTerms terms{.head_dim = as_double(head_dim),
                                 .fast_words = as_double(fast_words)};
          const double allowed = most_backward_pairs(terms, as_double(operations));
          const double found =
              as_double(most_backward_halves_found(fast_words, operations, head_dim, seqlen)) / 2;
          EXPECT_LE(found, allowed);
          tight = tight || found > 0.9 * allowed;
        }
      }
    }
  }
  EXPECT_TRUE(tight);
}

// --- Products. Every subset of the words a segment may hold of Q, K, V and the pairs' values is
// tried; for accumulators, which only add what their operands allow, the best ones are taken. ---

// A bit per word of a rows x cols matrix, from `base` on.
struct Words {
  int base, rows, cols;
  bool held(uint32_t set, int row, int col) const {
    return ((set >> (base + row * cols + col)) & 1U) != 0;
  }
  int end() const { return base + rows * cols; }
};

// most[c][w]: the most products of a segment that holds c words of Q, K, V, S (or P) and has w
// words in all, accumulators included.
using MostProducts = std::vector<std::vector<int64_t>>;

MostProducts empty_table(int held, int words) {
  return MostProducts(static_cast<size_t>(held) + 1,
                      std::vector<int64_t>(static_cast<size_t>(words) + 1, 0));
}

void note(MostProducts& most, uint32_t set, int64_t fixed, std::vector<int64_t>& gains) {
  auto& row = most[static_cast<size_t>(std::popcount(set))];
  size_t words = static_cast<size_t>(std::popcount(set));
  std::sort(gains.begin(), gains.end(), std::greater<>());
  row[words] = std::max(row[words], fixed);
  for (const int64_t gain : gains) {
    fixed += gain;
    ++words;
    row[words] = std::max(row[words], fixed);
  }
}

// Forward, n x n pairs, head dim d: S = Q K^T and O = P V. A score's products count if the score
// crosses the segment's boundary or all d of them are done; its P can then be used.
MostProducts search_forward(int n, int d) {
  const Words q{0, n, d}, k{q.end(), n, d}, v{k.end(), n, d}, s{v.end(), n, n};
  const int accumulators = n * n + n * d;
  MostProducts most = empty_table(s.end(), s.end() + accumulators);
  std::vector<int64_t> gains;
  for (uint32_t set = 0; set < (1U << s.end()); ++set) {
    int64_t fixed = 0;
    gains.clear();
    uint32_t usable = 0;  // P(i, j), bit i n + j
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        int done = 0;
        for (int c = 0; c < d; ++c) done += q.held(set, i, c) && k.held(set, j, c) ? 1 : 0;
        const bool crosses = s.held(set, i, j);
        if (crosses || done == d) {
          fixed += done;
          usable |= 1U << (i * n + j);
        } else if (done > 0) {
          gains.push_back(done);  // if the partial score leaves
        }
      }
    }
    for (int i = 0; i < n; ++i) {
      for (int c = 0; c < d; ++c) {
        int done = 0;
        for (int j = 0; j < n; ++j) {
          done += ((usable >> (i * n + j)) & 1U) != 0 && v.held(set, j, c) ? 1 : 0;
        }
        if (done == n) {
          fixed += done;
        } else if (done > 0) {
          gains.push_back(done);
        }
      }
    }
    note(most, set, fixed, gains);
  }
  return most;
}

// Whether the words of row (column) 0, read as a number, are at least those of row (column) 1.
bool first_row_leads(uint32_t set, const Words& w) {
  uint32_t first = 0, second = 0;
  for (int col = 0; col < w.cols; ++col) {
    first = first * 2 + (w.held(set, 0, col) ? 1U : 0U);
    second = second * 2 + (w.held(set, 1, col) ? 1U : 0U);
  }
  return first >= second;
}
bool first_col_leads(uint32_t set, const Words& w) {
  if (w.cols < 2) return true;
  uint32_t first = 0, second = 0;
  for (int row = 0; row < w.rows; ++row) {
    first = first * 2 + (w.held(set, row, 0) ? 1U : 0U);
    second = second * 2 + (w.held(set, row, 1) ? 1U : 0U);
  }
  return first >= second;
}

// Backward: S = Q K^T, dP = dO V^T, dV = P^T dO, dQ = dS K, dK = dS^T Q. dS needs P and dP; a held
// word over the pairs is P in one matrix and dP in the other.
MostProducts search_backward(int n, int d) {
  const Words q{0, n, d}, k{q.end(), n, d}, v{k.end(), n, d}, g{v.end(), n, d}, p{g.end(), n, n},
      dp{p.end(), n, n};
  const int accumulators = 2 * n * n + 3 * n * d;
  MostProducts most = empty_table(dp.end(), dp.end() + accumulators);
  std::vector<int64_t> gains;
  const auto count_sum = [&](int done, int all, int64_t& fixed) {
    if (done == all) {
      fixed += done;
    } else if (done > 0) {
      gains.push_back(done);
    }
  };
  for (uint32_t set = 0; set < (1U << dp.end()); ++set) {
    // Queries, keys and the columns of dO and V may be renamed: of each such pair of sets one will
    // do.
    if (!first_row_leads(set, q) || !first_row_leads(set, k) || !first_col_leads(set, g)) continue;
    int64_t fixed = 0;
    gains.clear();
    uint32_t usable_p = 0, usable_ds = 0;
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        int score = 0, gradient = 0;
        for (int c = 0; c < d; ++c) {
          score += q.held(set, i, c) && k.held(set, j, c) ? 1 : 0;
          gradient += g.held(set, i, c) && v.held(set, j, c) ? 1 : 0;
        }
        const bool has_p = p.held(set, i, j) || score == d;
        const bool has_dp = dp.held(set, i, j) || gradient == d;
        count_sum(score, has_p ? score : d, fixed);
        count_sum(gradient, has_dp ? gradient : d, fixed);
        usable_p |= has_p ? 1U << (i * n + j) : 0U;
        usable_ds |= has_p && has_dp ? 1U << (i * n + j) : 0U;
      }
    }
    for (int row = 0; row < n; ++row) {
      for (int c = 0; c < d; ++c) {
        int dv = 0, dq = 0, dk = 0;
        for (int other = 0; other < n; ++other) {
          dv += ((usable_p >> (other * n + row)) & 1U) != 0 && g.held(set, other, c) ? 1 : 0;
          dq += ((usable_ds >> (row * n + other)) & 1U) != 0 && k.held(set, other, c) ? 1 : 0;
          dk += ((usable_ds >> (other * n + row)) & 1U) != 0 && q.held(set, other, c) ? 1 : 0;
        }
        count_sum(dv, n, fixed);
        count_sum(dq, n, fixed);
        count_sum(dk, n, fixed);
      }
    }
    note(most, set, fixed, gains);
  }
  return most;
}

// The largest found / allowed over all M and T; at most 1 if the lemma holds.
double worst_ratio(const MostProducts& most, int n, int d, int outputs) {
  const auto at_most = [&](int64_t held, int64_t words) {
    int64_t found = 0;
    for (int64_t h = 0; h <= std::min(held, std::ssize(most) - 1); ++h) {
      const auto& row = most[static_cast<size_t>(h)];
      const auto end = row.begin() + std::min(words + 1, std::ssize(row));
      found = std::max(found, *std::max_element(row.begin(), end));
    }
    return found;
  };
  double worst = 0;
  for (int64_t fast_words = 1; fast_words <= 24; ++fast_words) {
    for (int64_t operations = 1; operations <= 24; ++operations) {
      const BoundTerms terms{.head_dim = as_double(d),
                             .fast_words = as_double(fast_words),
                             .shortest_sum = as_double(n)};
      const double allowed = most_products(terms, as_double(operations), outputs);
      // M + T words may be held, 2M + T with those that leave.
      const int64_t found = at_most(fast_words + operations, 2 * fast_words + operations);
      worst = std::max(worst, as_double(found) / allowed);
    }
  }
  return worst;
}

TEST(SegmentLemmas, ForwardProducts) {
  for (const auto& [n, d] : {std::pair{2, 1}, {2, 2}, {3, 1}, {2, 3}}) {
    const double worst = worst_ratio(search_forward(n, d), n, d, 1);
    std::printf("forward n %d d %d: most found / F = %.3f\n", n, d, worst);
    EXPECT_LE(worst, 1.0);
    EXPECT_GT(worst, 0.2);  // the search does find products
  }
}

TEST(SegmentLemmas, BackwardProducts) {
  for (const auto& [n, d] : {std::pair{2, 1}, {2, 2}}) {
    const double worst = worst_ratio(search_backward(n, d), n, d, 3);
    std::printf("backward n %d d %d: most found / F = %.3f\n", n, d, worst);
    EXPECT_LE(worst, 1.0);
    EXPECT_GT(worst, 0.2);
  }
}

// Where d is far above sqrt(M), F is less than twice what a segment does that holds I x C of Q, J x
// C of K, the rest of its columns as V's, and the I x J scores: half of F, a doubled bound, would
// fail.
TEST(SegmentLemmas, HalfOfTheProductsLemmaIsRefuted) {
  const double fast_words = 3 * 400, operations = 4 * fast_words;
  const BoundTerms terms{.head_dim = 1e6, .fast_words = fast_words, .shortest_sum = 1e9};
  const double allowed = most_products(terms, operations, 1);
  const double words = 2 * fast_words + operations;
  double found = 0;
  for (double side = 1; side * side < words; ++side) {
    const double columns = std::floor((words - side * side) / (2 * side));
    if (2 * side * columns > fast_words + operations) continue;  // held before anything leaves
    found = std::max(found, side * side * columns);
  }
  EXPECT_LE(found, allowed);
  EXPECT_GT(found, allowed / 2);
}

}  // namespace
}  // namespace tilewright::io_model
