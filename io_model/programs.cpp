#include "io_model/programs.h"

#include <algorithm>

#include "core/check.h"

namespace tilewright::io_model {

void product_by_query(const Setting& setting, Matrix& c, const Matrix& w, const Matrix& b,
                      const Block& block, double scale) {
  product(setting.machine, c, plain(w), plain(b), setting.shape().seqlen_k, block, scale,
          [&](Span queries, Span keys) { return setting.pairs().any(queries, keys); });
}

void product_by_key(const Setting& setting, Matrix& c, const Matrix& w, const Matrix& b,
                    const Block& block, double scale) {
  product(setting.machine, c, transposed(w), plain(b), setting.shape().seqlen_q, block, scale,
          [&](Span keys, Span queries) { return setting.pairs().any(queries, keys); });
}

void hide(const Setting& setting, Tile& scores, Span i, Span j) {
  if (!setting.machine.arithmetic() || setting.pairs().is_dense()) return;
  for (int64_t row = 0; row < i.size(); ++row) {
    for (int64_t col = 0; col < j.size(); ++col) {
      if (!setting.pairs().visible(i.begin + row, j.begin + col)) {
        scores.at(row, col) = kMinusInfinity;
      }
    }
  }
}

double probability(const Setting& setting, double score, double lse, int64_t query, int64_t key) {
  return setting.pairs().visible(query, key) ? std::exp(score - lse) : 0.0;
}

void exponentiate(const Setting& setting, Tile& scores, const Tile& lse, Span i, Span j) {
  if (!setting.machine.arithmetic()) return;
  for (int64_t row = 0; row < i.size(); ++row) {
    for (int64_t col = 0; col < j.size(); ++col) {
      scores.at(row, col) =
          probability(setting, scores.at(row, col), lse.at(row), i.begin + row, j.begin + col);
    }
  }
}

void finish_lse(const Setting& setting, Tile& row_max, const Tile& row_sum) {
  if (!setting.machine.arithmetic()) return;
  for (int64_t row = 0; row < row_max.rows(); ++row) {
    row_max.at(row) += std::log(row_sum.at(row));  // -inf + ln 0 stays -inf
  }
}

void score_gradient(const Setting& setting, Tile& d_scores, const Tile& probabilities,
                    const Tile& row_dots) {
  if (!setting.machine.arithmetic()) return;
  for (int64_t row = 0; row < d_scores.rows(); ++row) {
    for (int64_t col = 0; col < d_scores.cols(); ++col) {
      d_scores.at(row, col) =
          probabilities.at(row, col) * (d_scores.at(row, col) - row_dots.at(row));
    }
  }
}

void score_gradient_row(Tile& d_scores, int64_t row, const Tile& probabilities_row,
                        double row_dot) {
  for (int64_t col = 0; col < d_scores.cols(); ++col) {
    d_scores.at(row, col) = probabilities_row.at(0, col) * (d_scores.at(row, col) - row_dot);
  }
}

void store_scores(const Setting& setting, const Matrix& q, const Matrix& k, Matrix& scores,
                  Matrix& lse, const Block& block) {
  Machine& machine = setting.machine;
  for (const Span i : blocks(q.rows, block.rows)) {
    Tile row_max = machine.accumulator(i.size(), 1, kMinusInfinity);
    Tile row_sum = machine.accumulator(i.size(), 1);
    for (const Span j : blocks(k.rows, block.cols)) {
      if (!setting.pairs().any(i, j)) continue;
      Tile tile = machine.accumulator(i.size(), j.size());
      accumulate(machine, tile, plain(q), i, transposed(k), j, q.cols, block.depth, setting.scale);
      machine.store(tile, scores, i, j);
      hide(setting, tile, i, j);
      online_softmax(setting, tile, row_max, row_sum, [](int64_t, double) {});
    }
    finish_lse(setting, row_max, row_sum);
    machine.store(row_max, lse, i, kOneColumn);
  }
}

void accumulate_probabilities(const Setting& setting, Tile& sum, const Matrix& scores,
                              const Tile& lse, Span i, const Matrix& b, Span c, int64_t depth) {
  for (const Span slab : blocks(b.rows, depth)) {
    if (!setting.pairs().any(i, slab)) continue;
    const Tile right = setting.machine.load(b, slab, c);
    setting.machine.stream_rows(scores, i, slab, [&](int64_t row, const Tile& score) {
      for (int64_t key = 0; key < slab.size(); ++key) {
        const double p =
            probability(setting, score.at(0, key), lse.at(row), i.begin + row, slab.begin + key);
        for (int64_t col = 0; col < c.size(); ++col) sum.at(row, col) += p * right.at(key, col);
      }
    });
  }
}

Attention make_attention(const Machine& machine, const Shape& s) {
  const auto matrix = [&](int64_t rows, int64_t cols) { return machine.matrix(rows, cols); };
  return {.q = matrix(s.seqlen_q, s.head_dim_qk),
          .k = matrix(s.seqlen_k, s.head_dim_qk),
          .v = matrix(s.seqlen_k, s.head_dim_v),
          .out = matrix(s.seqlen_q, s.head_dim_v),
          .lse = matrix(s.seqlen_q, 1),
          .row_max = machine.matrix(s.seqlen_q, 1, kMinusInfinity),
          .row_sum = matrix(s.seqlen_q, 1),
          .d_out = matrix(s.seqlen_q, s.head_dim_v),
          .row_dots = matrix(s.seqlen_q, 1),
          .dq = matrix(s.seqlen_q, s.head_dim_qk),
          .dk = matrix(s.seqlen_k, s.head_dim_qk),
          .dv = matrix(s.seqlen_k, s.head_dim_v),
          .scores = matrix(s.seqlen_q, s.seqlen_k),
          .probabilities = matrix(s.seqlen_q, s.seqlen_k),
          .d_scores = matrix(s.seqlen_q, s.seqlen_k)};
}

Weights make_weights(const Machine& machine, const Shape& s) {
  const int64_t n = s.seqlen_q, d = s.head_dim_qk;
  const auto matrix = [&](int64_t rows, int64_t cols) { return machine.matrix(rows, cols); };
  return {.a1 = matrix(n, d),
          .a2 = matrix(n, d),
          .a3 = matrix(n, d),
          .e = matrix(n, d),
          .x = matrix(d, d),
          .y = matrix(d, d),
          .t1 = matrix(n, d),
          .h = matrix(n, d),
          .g = matrix(n, d),
          .lse = matrix(n, 1),
          .row_dots = matrix(n, 1),
          .t2 = matrix(n, d),
          .u = matrix(n, d),
          .scores = matrix(n, n),
          .p = matrix(n, n),
          .dx = matrix(d, d),
          .dy = matrix(d, d)};
}

namespace {

// The tiles as the closed forms see them: never larger than the matrices.
Result<Tiles> checked_tiles(Algorithm algorithm, const Case& problem_case, const Tiles& tiles) {
  TW_TRY(closed_form(algorithm, problem_case, tiles));  // refuses what cannot be counted
  Tiles clamped;
  const std::vector<Stage> all = stages(algorithm, problem_case);
  for (size_t at = 0; at < all.size(); ++at) {
    clamped.push_back({std::min(tiles[at].rows, all[at].max_rows),
                       std::min(tiles[at].cols, all[at].max_cols),
                       std::min(tiles[at].depth, all[at].max_depth)});
  }
  return clamped;
}

Error other_task(Algorithm algorithm) {
  return make_error(ErrorCode::kInvalidArgument, "{} does not work on these tensors",
                    info(algorithm).name);
}

}  // namespace

Result<Traffic> run(Algorithm algorithm, Machine& machine, const Case& problem_case,
                    double softmax_scale, const Tiles& tiles, Attention& tensors) {
  TW_ASSIGN(const Tiles blocks, checked_tiles(algorithm, problem_case, tiles));
  const Setting setting{machine, problem_case, softmax_scale};
  switch (algorithm) {
    case Algorithm::kStandardIdealForward:
      standard_ideal_forward(setting, tensors);
      break;
    case Algorithm::kStandardTiledForward:
      standard_tiled_forward(setting, tensors, blocks);
      break;
    case Algorithm::kFlash1Forward:
      flash1_forward(setting, tensors, blocks[0]);
      break;
    case Algorithm::kFlash2Forward:
      flash2_forward(setting, tensors, blocks[0]);
      break;
    case Algorithm::kSquareForward:
      square_forward(setting, tensors, blocks);
      break;
    case Algorithm::kStandardIdealBackward:
      standard_ideal_backward(setting, tensors);
      break;
    case Algorithm::kStandardTiledBackward:
      standard_tiled_backward(setting, tensors, blocks);
      break;
    case Algorithm::kFlash1Backward:
      flash1_backward(setting, tensors, blocks[0]);
      break;
    case Algorithm::kOnePassBackward:
      one_pass_backward(setting, tensors, blocks);
      break;
    case Algorithm::kTwoPassBackward:
      two_pass_backward(setting, tensors, blocks);
      break;
    case Algorithm::kSmallCacheBackward:
      small_cache_backward(setting, tensors, blocks);
      break;
    case Algorithm::kSmallCacheKeptBackward:
      small_cache_kept_backward(setting, tensors, blocks);
      break;
    case Algorithm::kLargeCacheWeights:
    case Algorithm::kSmallCacheWeights:
    case Algorithm::kSmallCacheBothWeights:
      return other_task(algorithm);
  }
  TW_TRY(machine.status());
  return machine.traffic();
}

Result<Traffic> run(Algorithm algorithm, Machine& machine, const Case& problem_case,
                    double softmax_scale, const Tiles& tiles, Weights& tensors) {
  TW_ASSIGN(const Tiles blocks, checked_tiles(algorithm, problem_case, tiles));
  const Setting setting{machine, problem_case, softmax_scale};
  if (algorithm == Algorithm::kLargeCacheWeights) {
    large_cache_weights(setting, tensors, blocks);
  } else if (algorithm == Algorithm::kSmallCacheWeights ||
             algorithm == Algorithm::kSmallCacheBothWeights) {
    small_cache_weights(setting, tensors, blocks, algorithm == Algorithm::kSmallCacheBothWeights);
  } else {
    return other_task(algorithm);
  }
  TW_TRY(machine.status());
  return machine.traffic();
}

Result<Traffic> count_by_loops(Algorithm algorithm, const Case& problem_case, int64_t fast_words,
                               const Tiles& tiles) {
  Machine machine(fast_words, Arithmetic::kOff, problem_case.accumulator_words);
  if (info(algorithm).task == Task::kWeights) {
    Weights tensors = make_weights(machine, problem_case.shape);
    return run(algorithm, machine, problem_case, 1.0, tiles, tensors);
  }
  Attention tensors = make_attention(machine, problem_case.shape);
  return run(algorithm, machine, problem_case, 1.0, tiles, tensors);
}

}  // namespace tilewright::io_model
