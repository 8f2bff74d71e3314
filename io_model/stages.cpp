// The closed forms, stage by stage. Where a formula counts tiles it takes them from the cover of
// the visible pairs, which for a dense problem is the ceilings of the textbook form.
#include <algorithm>

#include "core/check.h"
#include "io_model/closed_form.h"

namespace tilewright::io_model {
namespace {

// Names for what every formula uses.
struct Terms {
  explicit Terms(const Case& c)
      : shape(c.shape),
        pairs(c.pairs),
        nq(c.shape.seqlen_q),
        nk(c.shape.seqlen_k),
        qk(c.shape.head_dim_qk),
        dv(c.shape.head_dim_v),
        a(c.accumulator_words) {}

  const Shape& shape;
  const VisiblePairs& pairs;
  int64_t nq, nk;  // rows of Q and of K
  int64_t qk, dv;  // words of a row of Q or K, and of V or O
  int64_t a;       // words of an accumulator's element
};

// A pass that has no tile to choose.
Stage fixed_stage(std::string_view name, const Traffic& traffic) {
  return {.name = name,
          .peak = [traffic](const Block&) { return traffic.peak; },
          .traffic = [traffic](const Block&) { return traffic; }};
}

// --- Blocked products, section 1.5 of the notes: an output tile of bm x bn stays, slabs of depth
// kb of both operands stream by; `stats` accumulators per row of the tile stay too. ---

Count product_peak(const Terms& t, const Block& b, int64_t stats) {
  return Count(t.a) * b.rows * b.cols + Count(b.depth) * (b.rows + b.cols) +
         Count(t.a) * stats * b.rows;
}

// C (m x n) = A (m x k) B (k x n): mk ceil(n/bn) + kn ceil(m/bm) read, mn written, and `extra`.
Stage product_stage(std::string_view name, const Terms& t, int64_t m, int64_t n, int64_t k,
                    const Traffic& extra = {}, int64_t stats = 0) {
  const auto peak = [t, stats](const Block& b) { return product_peak(t, b, stats); };
  return {.name = name,
          .freedom = Freedom::kBoth,
          .max_rows = m,
          .max_cols = n,
          .max_depth = k,
          .peak = peak,
          .traffic = [=](const Block& b) {
            return Traffic{.reads = Count(m) * k * ceil_div(n, b.cols) +
                                    Count(k) * n * ceil_div(m, b.rows),
                           .writes = Count(m) * n,
                           .peak = peak(b)} +
                   extra;
          }};
}

// Tiles over the pairs: `products` blocked products per live tile, each over a head dim; then
// `reread` and `written` matrices of the pairs' size, and the row statistics in `extra`.
struct PairsStage {
  std::string_view name;
  Count inner_dims;  // sum of the head dims of the products
  int64_t max_depth;
  int64_t reread, written;
  int64_t stats;
  Traffic extra;
};

Stage pairs_stage(const Terms& t, const PairsStage& what) {
  const auto peak = [t, what](const Block& b) { return product_peak(t, b, what.stats); };
  return {.name = what.name,
          .freedom = Freedom::kBoth,
          .max_rows = t.nq,
          .max_cols = t.nk,
          .max_depth = what.max_depth,
          .peak = peak,
          .traffic = [t, what, peak](const Block& b) {
            const Cover live = t.pairs.cover(b.rows, b.cols);
            return Traffic{
                       .reads = what.inner_dims * (live.rows + live.cols) + live.area * what.reread,
                       .writes = live.area * what.written,
                       .peak = peak(b)} +
                   what.extra;
          }};
}

// C (nq x dim) = W B: W is a matrix over the pairs, B has nk rows.
Stage by_query_stage(std::string_view name, const Terms& t, int64_t dim) {
  const auto peak = [t](const Block& b) { return product_peak(t, b, 0); };
  return {.name = name,
          .freedom = Freedom::kBoth,
          .max_rows = t.nq,
          .max_cols = dim,
          .max_depth = t.nk,
          .peak = peak,
          .traffic = [t, dim, peak](const Block& b) {
            const Cover live = t.pairs.cover(b.rows, b.depth);
            return Traffic{.reads = live.area * ceil_div(dim, b.cols) + live.cols * dim,
                           .writes = Count(t.nq) * dim,
                           .peak = peak(b)};
          }};
}

// C (nk x dim) = W^T B: B has nq rows.
Stage by_key_stage(std::string_view name, const Terms& t, int64_t dim) {
  const auto peak = [t](const Block& b) { return product_peak(t, b, 0); };
  return {.name = name,
          .freedom = Freedom::kBoth,
          .max_rows = t.nk,
          .max_cols = dim,
          .max_depth = t.nq,
          .peak = peak,
          .traffic = [t, dim, peak](const Block& b) {
            const Cover live = t.pairs.cover(b.depth, b.rows);
            return Traffic{.reads = live.area * ceil_div(dim, b.cols) + live.rows * dim,
                           .writes = Count(t.nk) * dim,
                           .peak = peak(b)};
          }};
}

// O (nq x dim) = exp(S - L) B. The scores of a slab come one row of kb words at a time, so that L
// can stay in the room of the left slab. `extra` is what happens to a finished tile.
Stage output_stage(std::string_view name, const Terms& t, int64_t dim, int64_t stats,
                   const Traffic& extra) {
  const auto peak = [t, stats](const Block& b) {
    return Count(t.a) * b.rows * b.cols + Count(b.depth) * b.cols + b.depth +
           Count(t.a) * stats * b.rows;
  };
  return {.name = name,
          .freedom = Freedom::kBoth,
          .max_rows = t.nq,
          .max_cols = dim,
          .max_depth = t.nk,
          .peak = peak,
          .traffic = [t, dim, extra, peak](const Block& b) {
            const Cover live = t.pairs.cover(b.rows, b.depth);
            return Traffic{.reads = live.area * ceil_div(dim, b.cols) + live.cols * dim + t.nq,
                           .writes = Count(t.nq) * dim,
                           .peak = peak(b)} +
                   extra;
          }};
}

// D_i = <dO_i, O_i>, in slabs of both rows.
Stage row_dots_stage(const Terms& t) {
  return {.name = "D",
          .freedom = Freedom::kDepth,
          .max_depth = t.dv,
          .peak = [t](const Block& b) { return Count(2) * b.depth + t.a; },
          .traffic =
              [t](const Block& b) {
                return Traffic{Count(2) * t.shape.out(), t.nq, Count(2) * b.depth + t.a};
              }};
}

// --- Standard attention: S and P in slow memory; masks save nothing. ---

std::vector<Stage> standard_ideal_forward(const Terms& t) {
  const Count s = t.shape.scores(), k = t.shape.k(), v = t.shape.v();
  return {fixed_stage("S", {t.shape.q() + k, s, k + t.qk + t.a}),  // K stays
          fixed_stage("P", {s, s, t.nk}),
          fixed_stage("O", {s + v, t.shape.out(), v + Count(t.a) * t.dv + 1})};  // V stays
}

std::vector<Stage> standard_tiled_forward(const Terms& t) {
  const Count s = t.shape.scores();
  return {product_stage("S", t, t.nq, t.nk, t.qk), fixed_stage("P", {s, s, t.nk}),
          product_stage("O", t, t.nq, t.dv, t.nk)};
}

std::vector<Stage> standard_ideal_backward(const Terms& t) {
  const Count s = t.shape.scores(), q = t.shape.q(), k = t.shape.k(), v = t.shape.v(),
              out = t.shape.out();
  return {fixed_stage("dV", {s + out, v, Count(t.a) * v + t.dv + 1}),  // dV stays
          fixed_stage("dP", {out + v, s, v + t.dv + t.a}),             // V stays
          fixed_stage("dS", {Count(2) * s, s, Count(2) * t.nk}),
          fixed_stage("dQ", {s + k, q, k + Count(t.a) * t.qk + 1}),   // K stays
          fixed_stage("dK", {s + q, k, Count(t.a) * k + t.qk + 1})};  // dK stays
}

std::vector<Stage> standard_tiled_backward(const Terms& t) {
  const Count s = t.shape.scores();
  return {product_stage("dV", t, t.nk, t.dv, t.nq), product_stage("dP", t, t.nq, t.nk, t.dv),
          fixed_stage("dS", {Count(2) * s, s, Count(2) * t.nk}),
          product_stage("dQ", t, t.nq, t.qk, t.nk), product_stage("dK", t, t.nk, t.qk, t.nq)};
}

// --- FlashAttention's shapes. Block rows are Br, block columns Bc. ---

Stage flash1_forward_stage(const Terms& t) {
  const auto peak = [t](const Block& b) {
    return Count(b.cols) * (t.qk + t.dv) + Count(b.rows) * (t.qk + t.a * t.dv) +
           Count(t.a) * b.rows * b.cols + Count(2) * t.a * b.rows;
  };
  return {.name = "O",
          .freedom = Freedom::kCols,
          .max_rows = t.nq,
          .max_cols = t.nk,
          .peak = peak,
          .traffic = [t, peak](const Block& b) {
            const Cover live = t.pairs.cover(b.rows, b.cols);
            return Traffic{.reads = t.shape.k() + t.shape.v() + live.rows * (t.qk + t.dv + 2),
                           .writes = live.rows * (t.dv + 2),
                           .peak = peak(b)};
          }};
}

// Query blocks outside, K then V of a key block in the same words. `rows_extra` is read per row.
Stage flash2_forward_stage(std::string_view name, const Terms& t, const Traffic& extra) {
  const auto peak = [t](const Block& b) {
    return Count(b.rows) * (t.qk + t.a * t.dv) + Count(b.cols) * std::max(t.qk, t.dv) +
           Count(t.a) * b.rows * b.cols + Count(2) * t.a * b.rows;
  };
  return {.name = name,
          .freedom = Freedom::kRows,
          .max_rows = t.nq,
          .max_cols = t.nk,
          .peak = peak,
          .traffic = [t, peak, extra](const Block& b) {
            const Cover live = t.pairs.cover(b.rows, b.cols);
            return Traffic{.reads = t.shape.q() + live.cols * (t.qk + t.dv),
                           .writes = t.shape.out() + t.nq,
                           .peak = peak(b)} +
                   extra;
          }};
}

// Key blocks outside: K, V, dK, dV stay; `rows_held` words of a query row and `rows_written` of
// them go by with every live tile, next to S and dP.
Stage key_blocks_stage(std::string_view name, const Terms& t, Count row_words, Count rows_read,
                       Count rows_written) {
  const auto peak = [t, row_words](const Block& b) {
    return Count(b.cols) * (t.qk + t.dv) * (1 + t.a) + row_words * b.rows +
           Count(2) * t.a * b.rows * b.cols + Count(2) * t.a * b.rows;
  };
  return {.name = name,
          .freedom = Freedom::kCols,
          .max_rows = t.nq,
          .max_cols = t.nk,
          .peak = peak,
          .traffic = [=](const Block& b) {
            const Cover live = t.pairs.cover(b.rows, b.cols);
            return Traffic{.reads = t.shape.k() + t.shape.v() + live.rows * rows_read,
                           .writes = t.shape.k() + t.shape.v() + live.rows * rows_written,
                           .peak = peak(b)};
          }};
}

// Query blocks outside: Q, dO, the sum G (as wide as Q) and L, D stay; V then K of a key block go
// by in the same words.
Stage query_blocks_stage(std::string_view name, const Terms& t, Count resident,
                         const Traffic& extra) {
  const auto peak = [t, resident](const Block& b) {
    return resident + Count(b.rows) * (t.qk + t.dv + t.a * t.qk) +
           Count(b.cols) * std::max(t.qk, t.dv) + Count(2) * t.a * b.rows * b.cols +
           Count(2) * t.a * b.rows;
  };
  return {.name = name,
          .freedom = Freedom::kRows,
          .max_rows = t.nq,
          .max_cols = t.nk,
          .peak = peak,
          .traffic = [t, peak, extra](const Block& b) {
            const Cover live = t.pairs.cover(b.rows, b.cols);
            return Traffic{.reads = t.shape.q() + t.shape.out() + Count(2) * t.nq +
                                    live.cols * (t.qk + t.dv),
                           .writes = 0,
                           .peak = peak(b)} +
                   extra;
          }};
}

std::vector<Stage> flash1_backward(const Terms& t) {
  // Q, O, dO and dQ of the rows; l, m, which become D and L.
  return {key_blocks_stage("dQ, dK, dV", t, Count(t.qk) * (1 + t.a) + Count(2) * t.dv,
                           Count(2) * t.qk + Count(2) * t.dv + 2, t.qk)};
}

std::vector<Stage> one_pass_backward(const Terms& t) {
  return {row_dots_stage(t), key_blocks_stage("dQ, dK, dV", t, Count(t.qk) * (1 + t.a) + t.dv,
                                              Count(2) * t.qk + t.dv + 2, t.qk)};
}

std::vector<Stage> two_pass_backward(const Terms& t) {
  return {row_dots_stage(t),
          key_blocks_stage("dK, dV", t, Count(t.qk) + t.dv, Count(t.qk) + t.dv + 2, 0),
          query_blocks_stage("dQ", t, 0, {.reads = 0, .writes = t.shape.q(), .peak = 0})};
}

// --- Square tiles: every n x n and n x d matrix in slow memory. ---

std::vector<Stage> square_forward(const Terms& t) {
  return {pairs_stage(t, {.name = "S, L",
                          .inner_dims = t.qk,
                          .max_depth = t.qk,
                          .reread = 0,
                          .written = 1,
                          .stats = 2,
                          .extra = {0, t.nq, 0}}),
          output_stage("O", t, t.dv, 1, {})};
}

std::vector<Stage> small_cache_backward(const Terms& t) {
  return {row_dots_stage(t),
          pairs_stage(t, {.name = "P, dS",
                          .inner_dims = Count(t.qk) + t.dv,
                          .max_depth = std::min(t.qk, t.dv),
                          .reread = 1,
                          .written = 2,
                          .stats = 2,
                          .extra = {Count(2) * t.nq, 0, 0}}),
          by_key_stage("dV", t, t.dv), by_query_stage("dQ", t, t.qk), by_key_stage("dK", t, t.qk)};
}

std::vector<Stage> small_cache_kept_backward(const Terms& t) {
  return {row_dots_stage(t),
          pairs_stage(t, {.name = "dS",
                          .inner_dims = t.dv,
                          .max_depth = t.dv,
                          .reread = 1,
                          .written = 1,
                          .stats = 1,
                          .extra = {t.nq, 0, 0}}),
          by_key_stage("dV", t, t.dv), by_query_stage("dQ", t, t.qk), by_key_stage("dK", t, t.qk)};
}

// --- Gradients of X and Y (square problems: nq = nk, qk = dv). ---

std::vector<Stage> large_cache_weights(const Terms& t) {
  const Count nd = t.shape.q(), square = Count(t.qk) * t.qk;
  const Traffic project{nd + square, nd, square + t.qk + Count(t.a) * t.qk};
  return {fixed_stage("T1 = A1 X", project), fixed_stage("h = A3 Y", project),
          // reads E, writes g for O, and D beside L
          flash2_forward_stage("g, L, D", t, {nd, t.nq, 0}),
          // dX stays in fast memory; A1 rows stream at the end of each block
          query_blocks_stage("dX", t, Count(t.a) * square, {nd, square, 0})};
}

std::vector<Stage> small_cache_weights(const Terms& t, bool both) {
  const Count nd = t.shape.q();
  const int64_t n = t.nq, d = t.qk;
  std::vector<Stage> all = {
      product_stage("h = A3 Y", t, n, d, d),
      product_stage("T1 = A1 X", t, n, d, d),
      pairs_stage(t, {.name = "S, L",
                      .inner_dims = d,
                      .max_depth = d,
                      .reread = 0,
                      .written = 1,
                      .stats = 2,
                      .extra = {0, n, 0}}),
      output_stage("g, D", t, d, 2, {nd, n, 0}),  // E read, D written
      pairs_stage(t, {.name = both ? "p, f" : "p",
                      .inner_dims = d,
                      .max_depth = d,
                      .reread = 1,
                      .written = both ? 2 : 1,
                      .stats = 2,
                      .extra = {Count(2) * n, 0, 0}}),
      by_query_stage("T2 = p A2", t, d),
      product_stage("dX = A1^T T2", t, d, d, n),
  };
  if (both) {
    all.push_back(by_key_stage("U = f^T g", t, d));
    all.push_back(product_stage("dY = A3^T U", t, d, d, n));
  }
  return all;
}

}  // namespace

std::vector<Stage> stages(Algorithm algorithm, const Case& problem_case) {
  const Terms t(problem_case);
  switch (algorithm) {
    case Algorithm::kStandardIdealForward:
      return standard_ideal_forward(t);
    case Algorithm::kStandardTiledForward:
      return standard_tiled_forward(t);
    case Algorithm::kFlash1Forward:
      return {flash1_forward_stage(t)};
    case Algorithm::kFlash2Forward:
      return {flash2_forward_stage("O, L", t, {})};
    case Algorithm::kSquareForward:
      return square_forward(t);
    case Algorithm::kStandardIdealBackward:
      return standard_ideal_backward(t);
    case Algorithm::kStandardTiledBackward:
      return standard_tiled_backward(t);
    case Algorithm::kFlash1Backward:
      return flash1_backward(t);
    case Algorithm::kOnePassBackward:
      return one_pass_backward(t);
    case Algorithm::kTwoPassBackward:
      return two_pass_backward(t);
    case Algorithm::kSmallCacheBackward:
      return small_cache_backward(t);
    case Algorithm::kSmallCacheKeptBackward:
      return small_cache_kept_backward(t);
    case Algorithm::kLargeCacheWeights:
      return large_cache_weights(t);
    case Algorithm::kSmallCacheWeights:
      return small_cache_weights(t, false);
    case Algorithm::kSmallCacheBothWeights:
      return small_cache_weights(t, true);
  }
  TW_CHECK(false, "algorithm {}", static_cast<int>(algorithm));
}

}  // namespace tilewright::io_model
