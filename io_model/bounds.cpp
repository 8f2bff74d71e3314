#include "io_model/bounds.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/check.h"

namespace tilewright::io_model {
namespace {

double as_double(Count words) { return static_cast<double>(words.value()); }

// Any T > 0 gives a valid bound of T (work / most(T) - 1); the best T lies within a few octaves of
// M, and on this grid the maximum is missed by well under 1 %.
double best_segment(double fast_words, double work, const std::function<double(double)>& most) {
  double best = 0;
  for (int step = -64; step <= 160; ++step) {
    const double operations = fast_words * std::exp2(step / 16.0);
    best = std::max(best, operations * (work / most(operations) - 1));
  }
  return best;
}

// Scores that a segment can finish from rows it holds: I d + J d <= M + T gives I J <= K.
double finished_scores(const BoundTerms& t, double operations) {
  const double rows = (t.fast_words + operations) / (2 * t.head_dim);
  return rows * rows;
}

// Products into output sums that begin and end inside the segment. A rows x cols patch of outputs
// with sums of n terms needs (rows + cols) n operands; and no operand over the pairs meets more
// than d columns, in each of `outputs` kinds of sum.
double inner_sums(const BoundTerms& t, double operands, int outputs) {
  const double by_length = operands * operands / (4 * t.shortest_sum);
  const double by_columns = (outputs == 1 ? 1 : 2) * t.head_dim * operands;
  return t.shortest_sum > 1 ? by_length : by_columns;
}

}  // namespace

std::string_view to_string(Standing standing) {
  switch (standing) {
    case Standing::kCounted:
      return "counted";
    case Standing::kPublished:
      return "published lemma";
    case Standing::kDerived:
      return "derived, not peer-reviewed";
    case Standing::kConjectured:
      return "conjectured";
  }
  TW_CHECK(false, "standing {}", static_cast<int>(standing));
}

double LowerBound::largest(Standing up_to) const {
  double words = 0;
  for (const BoundLine& line : lines) {
    if (line.standing <= up_to) words = std::max(words, line.words);
  }
  return words;
}

std::string_view LowerBound::name_of(Standing up_to) const {
  for (const BoundLine& line : lines) {
    if (line.standing <= up_to && line.words == largest(up_to)) return line.name;
  }
  return "none";
}

double most_forward_pairs(const BoundTerms& t, double operations) {
  const double words = t.fast_words + operations;
  return words * words / (8 * t.head_dim * t.head_dim) + words;
}

double most_backward_pairs(const BoundTerms& t, double operations) {
  const double words = t.fast_words + operations;
  const double crossing = words + t.fast_words;
  return (crossing * crossing + 3 * words * words) / (96 * t.head_dim * t.head_dim) + words;
}

double most_products(const BoundTerms& t, double operations, int outputs) {
  const double scores = finished_scores(t, operations);
  const double operands = 2 * t.fast_words + operations + scores;
  return 2.0 / 9.0 * std::pow(operands, 1.5) + t.head_dim * scores +
         inner_sums(t, operands, outputs);
}

double most_gradient_products(const BoundTerms& t, double operations) {
  const double scores = finished_scores(t, operations);
  const double operands = 2 * t.fast_words + operations + scores;
  return std::pow(operands / 3, 1.5) + t.head_dim * scores + inner_sums(t, operands, 3);
}

LowerBound lower_bound(Task task, bool given_probabilities, const Case& problem_case,
                       int64_t fast_words) {
  const Shape& shape = problem_case.shape;
  const VisiblePairs& visible = problem_case.pairs;
  const double queries = static_cast<double>(visible.live_queries());
  const double keys = static_cast<double>(visible.live_keys());
  const double qk = static_cast<double>(shape.head_dim_qk);
  const double dv = static_cast<double>(shape.head_dim_v);
  const BoundTerms t{
      .pairs = as_double(visible.count()),
      .head_dim = std::min(qk, dv),
      .fast_words = static_cast<double>(fast_words),
      .shortest_sum = !visible.is_dense() ? 1.0
                      : task == Task::kBackward
                          ? static_cast<double>(std::min(shape.seqlen_q, shape.seqlen_k))
                          : static_cast<double>(shape.seqlen_k)};
  const double d = t.head_dim, m = t.fast_words;
  // Rows that no pair touches need not be read; outputs are written whole.
  const double forward_inputs = queries * qk + keys * (qk + dv);
  const double product_work = t.pairs * d;

  LowerBound bound;
  const auto add = [&](std::string_view name, Standing standing, double words) {
    bound.lines.push_back({name, standing, std::max(words, 0.0)});
  };
  const auto add_products = [&](int products, int outputs, Standing standing) {
    add("products", standing, best_segment(m, products * product_work, [&](double operations) {
          return most_products(t, operations, outputs);
        }));
  };
  const auto add_scores = [&] {
    // A part of a 2M-partition touches at most M^2 / d^2 + 4M scores.
    add("partition", Standing::kPublished, t.pairs * d * d / (m + 4 * d * d) - m);
  };
  switch (task) {
    case Task::kForward:
      add("compulsory", Standing::kCounted, forward_inputs + as_double(shape.out()));
      add_scores();
      add("pairs", Standing::kDerived, best_segment(m, t.pairs, [&](double operations) {
            return most_forward_pairs(t, operations);
          }));
      add_products(2, 1, Standing::kDerived);
      break;
    case Task::kBackward:
      add("compulsory", Standing::kCounted,
          forward_inputs + queries * dv + as_double(shape.q() + shape.k() + shape.v()) +
              (given_probabilities ? t.pairs : 0.0));
      if (given_probabilities) {
        add_products(4, 3, Standing::kConjectured);
        break;
      }
      add_scores();
      add("pairs", Standing::kDerived, best_segment(m, t.pairs, [&](double operations) {
            return most_backward_pairs(t, operations);
          }));
      add("products, analytic", Standing::kDerived,
          best_segment(m, 3 * product_work,
                       [&](double operations) { return most_gradient_products(t, operations); }));
      add_products(5, 3, Standing::kConjectured);
      break;
    case Task::kWeights:
      // A1, A2, A3, E; X and Y; dX. The scores must be evaluated as in the forward.
      add("compulsory", Standing::kCounted, 2 * queries * d + 2 * keys * d + 3 * d * d);
      add_scores();
      add("pairs", Standing::kDerived, best_segment(m, t.pairs, [&](double operations) {
            return most_forward_pairs(t, operations);
          }));
      break;
  }
  return bound;
}

double theorem_1_1(double seqlen, double head_dim, double fast_words) {
  const double n = seqlen, d = head_dim;
  return std::min((n * n * d * d + n * d * d * d) / fast_words,
                  (n * n * d + n * d * d) / std::sqrt(fast_words));
}

double theorem_4_5(double input_nonzeros, double score_nonzeros, double fast_words) {
  return std::min(input_nonzeros * input_nonzeros / fast_words,
                  input_nonzeros * std::sqrt(score_nonzeros) / std::sqrt(fast_words));
}

double theorem_4_5_switch(double input_nonzeros, double score_nonzeros) {
  return input_nonzeros * input_nonzeros / score_nonzeros;
}

}  // namespace tilewright::io_model
