#include "io_model/crossover.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace tilewright::io_model {
namespace {

// Leading terms for d << n: of n^2 d^2 / M, n^2 d / sqrt(M) and n^2.
struct Leading {
  double flash = 0, tiles = 0, squares = 0;
};

Leading leading_terms(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kFlash2Forward:
      return {.flash = 4};
    case Algorithm::kOnePassBackward:
      return {.flash = 16};
    case Algorithm::kTwoPassBackward:
      return {.flash = 14};
    case Algorithm::kSquareForward:
      return {.tiles = 4, .squares = 1};
    case Algorithm::kSmallCacheBackward:
      return {.tiles = 10, .squares = 3};
    case Algorithm::kSmallCacheKeptBackward:
      return {.tiles = 8, .squares = 2};
    default:
      return {};
  }
}

}  // namespace

double crossover_equation(Algorithm flash, Algorithm small_cache, double tile_shrink) {
  const double a = leading_terms(flash).flash;
  const double b = leading_terms(small_cache).tiles * tile_shrink;
  const double c = leading_terms(small_cache).squares;
  if (a == 0 || b == 0) return 0;
  const double x = (b + std::sqrt(b * b + 4 * a * c)) / (2 * a);
  return 1 / (x * x);
}

Result<int64_t> crossover_scan(Algorithm flash, Algorithm small_cache, const Case& problem_case) {
  const Shape& shape = problem_case.shape;
  const int64_t square =
      std::max(shape.head_dim_qk, shape.head_dim_v) * std::max(shape.head_dim_qk, shape.head_dim_v);
  const auto wins = [&](int64_t fast_words) {
    const Result<Traffic> ours = best_count(small_cache, problem_case, fast_words);
    if (!ours) return false;
    const Result<Traffic> theirs = best_count(flash, problem_case, fast_words);
    return !theirs || ours->total() < theirs->total();
  };
  for (int64_t step = 1600; step >= 10; --step) {
    if (!wins(square * step / 200)) continue;
    int64_t low = square * step / 200, high = square * (step + 1) / 200;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (wins(middle) ? low : high) = middle;
    }
    return low;
  }
  return make_error(ErrorCode::kNotFound, "{} never moves fewer words than {} here",
                    info(small_cache).name, info(flash).name);
}

}  // namespace tilewright::io_model
