#include "io_model/closed_form.h"

#include <algorithm>
#include <string>

#include "core/check.h"

namespace tilewright::io_model {

namespace {

Status check_sizes(const Shape& shape) {
  TW_TRY((shape.scores() + shape.q() + shape.k() + shape.v() + shape.out())
             .checked(fmt::format("the number of words of q{} k{} qk{} v{}", shape.seqlen_q,
                                  shape.seqlen_k, shape.head_dim_qk, shape.head_dim_v)));
  return {};
}

}  // namespace

Case Case::dense(int64_t seqlen, int64_t head_dim) {
  return {{seqlen, seqlen, head_dim, head_dim}, VisiblePairs::dense(seqlen, seqlen)};
}

Result<Case> Case::from_problem(const Problem& problem) {
  if (!problem.seqlen_q || !problem.seqlen_k || !problem.head_dim_qk) {
    return make_error(ErrorCode::kInvalidArgument,
                      "counting needs q, k and qk (lengths and head dim), as in q4096 k4096 qk128");
  }
  const Shape shape{*problem.seqlen_q, *problem.seqlen_k, *problem.head_dim_qk,
                    problem.head_dim_v.value_or(*problem.head_dim_qk)};
  if (shape.seqlen_q < 1 || shape.seqlen_k < 1 || shape.head_dim_qk < 1 || shape.head_dim_v < 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      "lengths and head dims must be positive: q{} k{} qk{} v{}", shape.seqlen_q,
                      shape.seqlen_k, shape.head_dim_qk, shape.head_dim_v);
  }
  TW_TRY(check_sizes(shape));
  TW_ASSIGN(VisiblePairs pairs, VisiblePairs::from_problem(problem));
  return Case{shape, std::move(pairs)};
}

Tiles uniform_tiles(Algorithm algorithm, const Case& problem_case, const Block& block) {
  return Tiles(stages(algorithm, problem_case).size(), block);
}

namespace {

Status check_case(Algorithm algorithm, const Case& problem_case) {
  const Shape& shape = problem_case.shape;
  TW_TRY(check_sizes(shape));
  if (info(algorithm).task == Task::kWeights &&
      (shape.seqlen_q != shape.seqlen_k || shape.head_dim_qk != shape.head_dim_v)) {
    return make_error(ErrorCode::kUnsupportedProblem,
                      "the gradients of X and Y are counted for equal lengths and head dims only, "
                      "not q{} k{} qk{} v{}",
                      shape.seqlen_q, shape.seqlen_k, shape.head_dim_qk, shape.head_dim_v);
  }
  return {};
}

Block clamped(const Block& block, const Stage& stage) {
  return {std::min(block.rows, stage.max_rows), std::min(block.cols, stage.max_cols),
          std::min(block.depth, stage.max_depth)};
}

Block least_block(const Stage& stage, const Granularity& granularity) {
  const bool rows_free = stage.freedom == Freedom::kRows || stage.freedom == Freedom::kBoth;
  const bool cols_free = stage.freedom == Freedom::kCols || stage.freedom == Freedom::kBoth;
  return clamped({rows_free ? granularity.tile_step : granularity.streamed,
                  cols_free ? granularity.tile_step : granularity.streamed, granularity.depth},
                 stage);
}

// The largest value of `side`, a multiple of `step` or `limit` itself, with which the stage fits;
// 0 if none does. The peak grows with the side.
int64_t largest_side(const Stage& stage, Block block, int64_t Block::*side, int64_t limit,
                     int64_t step, int64_t fast_words) {
  const auto fits = [&](int64_t value) {
    block.*side = std::min(value, limit);
    return stage.peak(block) <= fast_words;
  };
  int64_t low = 0, high = ceil_div(limit, step) + 1;  // in steps; low fits or is 0, high does not
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle * step) ? low : high) = middle;
  }
  return std::min(low * step, limit);
}

// The block with the least traffic; rows == 0 if no block fits.
Block best_block(const Stage& stage, const Granularity& granularity, int64_t fast_words) {
  Block least = least_block(stage, granularity);
  const Block none{0, 0, 0};
  if (!(stage.peak(least) <= fast_words)) return none;
  const int64_t step = granularity.tile_step;
  switch (stage.freedom) {
    case Freedom::kNone:
      return least;
    case Freedom::kDepth:
      least.depth = largest_side(stage, least, &Block::depth, stage.max_depth, 1, fast_words);
      return least;
    case Freedom::kRows:
      least.rows = largest_side(stage, least, &Block::rows, stage.max_rows, step, fast_words);
      return least;
    case Freedom::kCols:
      least.cols = largest_side(stage, least, &Block::cols, stage.max_cols, step, fast_words);
      return least;
    case Freedom::kBoth:
      break;
  }
  // Of all heights that cut the output into the same number of rows of tiles the lowest leaves the
  // most room for columns, so only those need be tried: about 2 sqrt(max_rows) of them.
  Block best = none;
  Count best_total;
  for (int64_t rows = least.rows; rows <= stage.max_rows;) {
    Block block = least;
    block.rows = rows;
    block.cols = largest_side(stage, block, &Block::cols, stage.max_cols, step, fast_words);
    if (block.cols == 0) break;
    const Count total = stage.traffic(block).total();
    if (best.rows == 0 || total < best_total) {
      best = block;
      best_total = total;
    }
    if (rows == stage.max_rows) break;
    // The lowest height with one row of tiles fewer, rounded up to a step.
    const int64_t fewer = ceil_div(stage.max_rows, rows) - 1;
    const int64_t next = ceil_div(ceil_div(stage.max_rows, fewer), step) * step;
    rows = std::min(std::max(next, rows + 1), stage.max_rows);
  }
  return best;
}

// "two-pass needs 6·d + 4 words" in numbers, and what still runs.
Error too_small(Algorithm algorithm, const Case& problem_case, int64_t fast_words,
                const Granularity& granularity) {
  const Result<int64_t> needs = least_memory(algorithm, problem_case, granularity);
  if (!needs) return needs.error();
  Error error =
      make_error(ErrorCode::kOutOfMemory, "{} needs {} words of fast memory, {} are given",
                 info(algorithm).name, *needs, fast_words);
  for (const AlgorithmInfo& other : algorithms()) {
    if (other.task != info(algorithm).task || other.algorithm == algorithm) continue;
    const Result<int64_t> least = least_memory(other.algorithm, problem_case, granularity);
    if (least && *least <= fast_words) {
      error.reasons.push_back(fmt::format("{} runs: it needs {} words{}", other.name, *least,
                                          other.given_probabilities ? ", and P as an input" : ""));
    }
  }
  if (error.reasons.empty()) error.reasons.push_back("no algorithm of this task runs in that");
  return error;
}

}  // namespace

Result<Traffic> closed_form(Algorithm algorithm, const Case& problem_case, const Tiles& tiles) {
  TW_TRY(check_case(algorithm, problem_case));
  const std::vector<Stage> all = stages(algorithm, problem_case);
  if (tiles.size() != all.size()) {
    return make_error(ErrorCode::kInvalidArgument, "{} has {} stages, {} blocks are given",
                      info(algorithm).name, all.size(), tiles.size());
  }
  Traffic traffic;
  for (size_t at = 0; at < all.size(); ++at) {
    const Block& block = tiles[at];
    if (block.rows < 1 || block.cols < 1 || block.depth < 1) {
      return make_error(ErrorCode::kInvalidArgument, "stage '{}': block {}x{} depth {} is empty",
                        all[at].name, block.rows, block.cols, block.depth);
    }
    traffic = traffic + all[at].traffic(clamped(block, all[at]));
  }
  const Shape& shape = problem_case.shape;
  TW_TRY((traffic.total() + traffic.peak)
             .checked(fmt::format("the count of {} at q{} k{} qk{} v{}", info(algorithm).name,
                                  shape.seqlen_q, shape.seqlen_k, shape.head_dim_qk,
                                  shape.head_dim_v)));
  return traffic;
}

double matmul_flops(Algorithm algorithm, const Case& problem_case) {
  const Shape& shape = problem_case.shape;
  const double dim = static_cast<double>(shape.head_dim_qk + shape.head_dim_v) / 2;
  return info(algorithm).matmul_flops_per_pair_dim * dim *
         static_cast<double>(problem_case.pairs.count().value());
}

Count extra_slow_words(Algorithm algorithm, const Shape& shape) {
  const Count n = shape.seqlen_q, scores = shape.scores();
  switch (algorithm) {
    case Algorithm::kStandardIdealForward:
    case Algorithm::kStandardTiledForward:
      return Count(2) * scores;  // S, P
    case Algorithm::kFlash1Forward:
      return Count(2) * n;  // l, m
    case Algorithm::kFlash2Forward:
      return n;  // L
    case Algorithm::kSquareForward:
      return scores + n;  // S, L
    case Algorithm::kStandardIdealBackward:
    case Algorithm::kStandardTiledBackward:
      return Count(2) * scores;  // P, dS
    case Algorithm::kFlash1Backward:
    case Algorithm::kOnePassBackward:
    case Algorithm::kTwoPassBackward:
      return Count(2) * n;  // L or l, m; D
    case Algorithm::kSmallCacheBackward:
    case Algorithm::kSmallCacheKeptBackward:
      return Count(2) * scores + Count(2) * n;  // P, dS; L, D
    case Algorithm::kLargeCacheWeights:
      return Count(3) * shape.q() + Count(2) * n;  // T1, h, g; L, D
    case Algorithm::kSmallCacheWeights:
    case Algorithm::kSmallCacheBothWeights:
      return Count(2) * scores + Count(4) * shape.q() + Count(2) * n;  // S, p; T1, h, g, T2 or U
  }
  TW_CHECK(false, "algorithm {}", static_cast<int>(algorithm));
}

Result<int64_t> least_memory(Algorithm algorithm, const Case& problem_case,
                             const Granularity& granularity) {
  TW_TRY(check_case(algorithm, problem_case));
  Count least;
  for (const Stage& stage : stages(algorithm, problem_case)) {
    const Count peak = stage.peak(least_block(stage, granularity));
    if (least < peak) least = peak;
  }
  return least.checked(fmt::format("the fast memory that {} needs", info(algorithm).name));
}

Result<Tiles> best_tiles(Algorithm algorithm, const Case& problem_case, int64_t fast_words,
                         const Granularity& granularity) {
  TW_TRY(check_case(algorithm, problem_case));
  Tiles tiles;
  for (const Stage& stage : stages(algorithm, problem_case)) {
    const Block block = best_block(stage, granularity, fast_words);
    if (block.rows == 0) return too_small(algorithm, problem_case, fast_words, granularity);
    tiles.push_back(block);
  }
  return tiles;
}

Result<Traffic> best_count(Algorithm algorithm, const Case& problem_case, int64_t fast_words,
                           const Granularity& granularity) {
  TW_ASSIGN(const Tiles tiles, best_tiles(algorithm, problem_case, fast_words, granularity));
  return closed_form(algorithm, problem_case, tiles);
}

}  // namespace tilewright::io_model
