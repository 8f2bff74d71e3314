// Lower bounds on the words any algorithm must move between a fast memory of M words and slow
// memory, for attention computed by the standard products (recomputation allowed). All are
// non-asymptotic; what each rests on is part of its name. Derivations: docs/io-complexity.md.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "io_model/algorithm.h"
#include "io_model/closed_form.h"

namespace tilewright::io_model {

// What a bound rests on.
enum class Standing {
  kCounted,     // every input is read and every output written once
  kPublished,   // Hong and Kung's partition lemma, nothing else of ours but arithmetic
  kDerived,     // derived for this project, not peer-reviewed
  kConjectured  // rests on a constant found by numerical search
};

std::string_view to_string(Standing standing);

struct BoundLine {
  std::string_view name;  // "compulsory", "partition", "pairs", "products", "products, analytic"
  Standing standing;
  double words;
};

// The largest line of each standing and those before it. `conservative` is the default everywhere.
struct LowerBound {
  std::vector<BoundLine> lines;

  double conservative() const { return largest(Standing::kPublished); }
  double derived() const { return largest(Standing::kDerived); }
  double conjectured() const { return largest(Standing::kConjectured); }
  // The line behind largest(): "compulsory".
  std::string_view name_of(Standing up_to) const;

 private:
  double largest(Standing up_to) const;
};

// What the bounds see of a problem. Head dims that differ count as the smaller one: leaving out
// columns never adds traffic.
struct BoundTerms {
  double pairs = 0;       // visible
  double head_dim = 0;    // d
  double fast_words = 0;  // M
  double shortest_sum =
      0;  // least number of terms of an output's sum; 1 if masks may cut rows short
};

// The segment lemmas: the most pairs, or products, that T consecutive I/O operations can finish.
double most_forward_pairs(const BoundTerms& terms, double operations);
double most_backward_pairs(const BoundTerms& terms, double operations);
// F of the notes: for the forward's two products and, by numerical search, the backward's five.
double most_products(const BoundTerms& terms, double operations, int outputs);
// The backward's dV, dQ and dK alone: analytic.
double most_gradient_products(const BoundTerms& terms, double operations);

// Bounds of a task, for algorithms that compute P or are given it. `fast_words` >= 1.
LowerBound lower_bound(Task task, bool given_probabilities, const Case& problem_case,
                       int64_t fast_words);
inline LowerBound lower_bound(Algorithm algorithm, const Case& problem_case, int64_t fast_words) {
  return lower_bound(info(algorithm).task, info(algorithm).given_probabilities, problem_case,
                     fast_words);
}

// Asymptotic: the expressions of the theorems with every constant 1. Never comparable with counts.
// Theorem 1.1, the backward: min{(n^2 d^2 + n d^3) / M, (n^2 d + n d^2) / sqrt(M)}.
double theorem_1_1(double seqlen, double head_dim, double fast_words);
// Theorem 4.5, sparse inputs: min{Z_in^2 / M, Z_in sqrt(Z_QK) / sqrt(M)}.
double theorem_4_5(double input_nonzeros, double score_nonzeros, double fast_words);
// Where the branches of theorem 4.5 meet: Z_in^2 / Z_QK.
double theorem_4_5_switch(double input_nonzeros, double score_nonzeros);

}  // namespace tilewright::io_model
