#include "io_model/sparse_input.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "io_model/bounds.h"

namespace tilewright::io_model {
namespace {

// A matrix as it lies in slow memory: one long row of words, and where each of its rows begins. The
// places are known without reading, as a row's length is its first word.
struct PackedRows {
  Matrix words;
  std::vector<Span> rows;
  int64_t longest = 0;
};

PackedRows pack(const SparseMatrix& matrix) {
  PackedRows packed;
  std::vector<double>& words = packed.words.values;
  for (const auto& row : matrix.rows) {
    const int64_t begin = std::ssize(words);
    words.push_back(static_cast<double>(row.size()));
    for (const auto& [column, value] : row) {
      words.push_back(static_cast<double>(column));
      words.push_back(value);
    }
    packed.rows.push_back({begin, std::ssize(words)});
    packed.longest = std::max(packed.longest, packed.rows.back().size());
  }
  packed.words.rows = 1;
  packed.words.cols = std::ssize(words);
  return packed;
}

Tile load_row(Machine& machine, const PackedRows& packed, int64_t row) {
  return machine.load(packed.words, {0, 1}, packed.rows[static_cast<size_t>(row)]);
}

// <a, b> of two packed rows whose columns rise; `overlap` says whether they share one.
double sparse_dot(const Tile& a, const Tile& b, bool& overlap) {
  double sum = 0;
  overlap = false;
  for (int64_t i = 1, j = 1; i < a.cols() && j < b.cols();) {
    if (a.at(0, i) == b.at(0, j)) {
      sum += a.at(0, i + 1) * b.at(0, j + 1);
      overlap = true;
      i += 2;
      j += 2;
    } else {
      (a.at(0, i) < b.at(0, j) ? i : j) += 2;
    }
  }
  return sum;
}

// One query row in fast memory with all that belongs to it.
struct HeldQuery {
  int64_t row;
  Tile q, out, row_max, row_sum, score;
};

// Takes a pair's score in: the online softmax of one element, and O += p V(j).
void take_pair(HeldQuery& held, const Tile& value_row) {
  const double score = held.score.at(0);
  const double old_max = held.row_max.at(0);
  const double new_max = std::max(old_max, score);
  const double factor = std::exp(old_max - new_max), p = std::exp(score - new_max);
  held.row_max.at(0) = new_max;
  held.row_sum.at(0) = factor * held.row_sum.at(0) + p;
  for (int64_t col = 0; col < held.out.cols(); ++col) held.out.at(0, col) *= factor;
  for (int64_t at = 1; at < value_row.cols(); at += 2) {
    held.out.at(0, static_cast<int64_t>(value_row.at(0, at))) += p * value_row.at(0, at + 1);
  }
}

constexpr double kNoPair = -std::numeric_limits<double>::infinity();

}  // namespace

int64_t SparseMatrix::nonzeros() const {
  int64_t count = 0;
  for (const auto& row : rows) count += std::ssize(row);
  return count;
}

Result<SparseForward> sparse_forward(const SparseMatrix& q, const SparseMatrix& k,
                                     const SparseMatrix& v, double softmax_scale,
                                     int64_t fast_words) {
  if (k.rows.size() != v.rows.size() || q.cols != k.cols) {
    return make_error(ErrorCode::kInvalidArgument, "K has {} rows of {}, V {} rows, Q rows of {}",
                      k.rows.size(), k.cols, v.rows.size(), q.cols);
  }
  const PackedRows packed_q = pack(q), packed_k = pack(k), packed_v = pack(v);
  Machine machine(fast_words, Arithmetic::kOn);
  SparseForward result;
  result.out = machine.matrix(std::ssize(q.rows), v.cols);
  // What passes by while queries stay: a row of K, then one of V in its place.
  const int64_t passing = std::max(packed_k.longest, packed_v.longest);
  const auto words_held = [&](int64_t row) {
    return packed_q.rows[static_cast<size_t>(row)].size() + v.cols + 3;
  };
  int64_t pairs = 0;
  for (int64_t next = 0; next < std::ssize(q.rows);) {
    std::vector<HeldQuery> held;
    while (next < std::ssize(q.rows) &&
           machine.resident() + words_held(next) + passing <= fast_words) {
      held.push_back({next, load_row(machine, packed_q, next), machine.accumulator(1, v.cols),
                      machine.accumulator(1, 1, kNoPair), machine.accumulator(1, 1),
                      machine.accumulator(1, 1)});
      ++next;
    }
    if (held.empty()) {
      return make_error(ErrorCode::kOutOfMemory,
                        "sparse attention needs {} words of fast memory for row {}, {} are given",
                        words_held(next) + passing, next, fast_words);
    }
    for (int64_t j = 0; j < std::ssize(k.rows); ++j) {
      bool any = false;
      {
        const Tile key_row = load_row(machine, packed_k, j);
        for (HeldQuery& query : held) {
          bool overlap = false;
          const double score = softmax_scale * sparse_dot(query.q, key_row, overlap);
          query.score.at(0) = overlap ? score : kNoPair;
          pairs += overlap ? 1 : 0;
          any = any || overlap;
        }
      }
      if (!any) continue;
      const Tile value_row = load_row(machine, packed_v, j);
      for (HeldQuery& query : held) {
        if (query.score.at(0) != kNoPair) take_pair(query, value_row);
      }
    }
    for (HeldQuery& query : held) {
      for (int64_t col = 0; col < v.cols && query.row_sum.at(0) > 0; ++col) {
        query.out.at(0, col) /= query.row_sum.at(0);
      }
      machine.store(query.out, result.out, {query.row, query.row + 1}, {0, v.cols});
    }
  }
  TW_TRY(machine.status());
  result.traffic = machine.traffic();
  result.input_nonzeros = static_cast<double>(q.nonzeros() + k.nonzeros() + v.nonzeros()) / 3;
  result.score_nonzeros = static_cast<double>(pairs);
  result.asymptotic_bound =
      theorem_4_5(result.input_nonzeros, result.score_nonzeros, static_cast<double>(fast_words));
  return result;
}

}  // namespace tilewright::io_model
