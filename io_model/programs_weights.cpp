// The gradients of X and Y, sections 1.8 and 1.9 of the notes, as programs for the two-level
// machine.
#include "io_model/programs.h"

namespace tilewright::io_model {
namespace {

// C = A B with B (d x d) resident, a row at a time.
void project(const Setting& setting, Matrix& c, const Matrix& a, const Matrix& b) {
  Machine& machine = setting.machine;
  const Tile resident = machine.load(b, whole(b.rows), whole(b.cols));
  for (const Span i : blocks(c.rows, 1)) {
    const Tile row = machine.load(a, i, whole(a.cols));
    Tile sum = machine.accumulator(1, c.cols);
    multiply_add(machine, sum, plain(row), plain(resident));
    machine.store(sum, c, i, whole(c.cols));
  }
}

// out becomes g = O - E; row_dots += rowsum(g * O). E comes a row at a time.
void subtract_target(const Setting& setting, Tile& out, Tile& row_dots, const Matrix& e, Span i,
                     Span c) {
  setting.machine.stream_rows(e, i, c, [&](int64_t row, const Tile& target) {
    for (int64_t col = 0; col < c.size(); ++col) {
      const double o = out.at(row, col);
      out.at(row, col) = o - target.at(0, col);
      row_dots.at(row) += out.at(row, col) * o;
    }
  });
}

// p becomes f * (p - D) with f = exp(S - L), S read back a row at a time; f takes S's place if it
// is to be kept.
void apply_softmax_gradient(const Setting& setting, Weights& x, const Tile& lse,
                            const Tile& row_dots, Tile& p, Span i, Span j, bool keep_f) {
  Machine& machine = setting.machine;
  for (int64_t row = 0; row < i.size(); ++row) {
    const Span query{i.begin + row, i.begin + row + 1};
    Tile f = machine.load(x.scores, query, j);
    if (machine.arithmetic()) {
      for (int64_t col = 0; col < j.size(); ++col) {
        f.at(0, col) = probability(setting, f.at(0, col), lse.at(row), query.begin, j.begin + col);
      }
      score_gradient_row(p, row, f, row_dots.at(row));
    }
    if (keep_f) machine.store(f, x.scores, query, j);
  }
}

void flash_residual(const Setting& setting, Weights& x, const Block& block) {
  Machine& machine = setting.machine;
  const int64_t n = x.t1.rows, d = x.t1.cols;
  for (const Span i : blocks(n, block.rows)) {
    const Tile t1 = machine.load(x.t1, i, whole(d));
    Tile out = machine.accumulator(i.size(), d);
    Tile row_max = machine.accumulator(i.size(), 1, kMinusInfinity);
    Tile row_sum = machine.accumulator(i.size(), 1);
    for (const Span j : blocks(n, block.cols)) {
      if (!setting.pairs().any(i, j)) continue;
      Tile scores = machine.accumulator(i.size(), j.size());
      {
        const Tile a2 = machine.load(x.a2, j, whole(d));
        multiply_add(machine, scores, plain(t1), transposed(a2), setting.scale);
      }
      hide(setting, scores, i, j);
      online_softmax(setting, scores, row_max, row_sum, [&](int64_t row, double factor) {
        for (int64_t col = 0; col < d; ++col) out.at(row, col) *= factor;
      });
      const Tile h = machine.load(x.h, j, whole(d));  // where A2 was
      multiply_add(machine, out, plain(scores), plain(h));
    }
    finish_lse(setting, row_max, row_sum);  // L
    if (machine.arithmetic()) {
      for (int64_t row = 0; row < i.size(); ++row) {
        for (int64_t col = 0; col < d; ++col) {
          if (row_sum.at(row) > 0) out.at(row, col) /= row_sum.at(row);
        }
        row_sum.at(row) = 0;  // makes room for D
      }
    }
    subtract_target(setting, out, row_sum, x.e, i, whole(d));
    machine.store(out, x.g, i, whole(d));
    machine.store(row_max, x.lse, i, kOneColumn);
    machine.store(row_sum, x.row_dots, i, kOneColumn);
  }
}

}  // namespace

void large_cache_weights(const Setting& setting, Weights& x, const Tiles& tiles) {
  Machine& machine = setting.machine;
  const int64_t n = x.t1.rows, d = x.t1.cols;
  project(setting, x.t1, x.a1, x.x);
  project(setting, x.h, x.a3, x.y);
  flash_residual(setting, x, tiles[2]);
  Tile dx = machine.accumulator(d, d);
  for (const Span i : blocks(n, tiles[3].rows)) {
    const Tile t1 = machine.load(x.t1, i, whole(d)), g = machine.load(x.g, i, whole(d));
    const Tile lse = machine.load_accumulator(x.lse, i, kOneColumn);
    const Tile row_dots = machine.load_accumulator(x.row_dots, i, kOneColumn);
    Tile sum = machine.accumulator(i.size(), d);  // G, the rows of T2
    for (const Span j : blocks(n, tiles[3].cols)) {
      if (!setting.pairs().any(i, j)) continue;
      Tile p = machine.accumulator(i.size(), j.size());
      Tile ds = machine.accumulator(i.size(), j.size());
      {
        const Tile h = machine.load(x.h, j, whole(d));
        multiply_add(machine, ds, plain(g), transposed(h));
      }
      const Tile a2 = machine.load(x.a2, j, whole(d));  // where h was
      multiply_add(machine, p, plain(t1), transposed(a2), setting.scale);
      exponentiate(setting, p, lse, i, j);
      score_gradient(setting, ds, p, row_dots);
      multiply_add(machine, sum, plain(ds), plain(a2), setting.scale);
    }
    // dX += A1(i)^T G
    machine.stream_rows(x.a1, i, whole(d), [&](int64_t row, const Tile& a1) {
      for (int64_t left = 0; left < d; ++left) {
        for (int64_t right = 0; right < d; ++right) {
          dx.at(left, right) += a1.at(0, left) * sum.at(row, right);
        }
      }
    });
  }
  machine.store(dx, x.dx, whole(d), whole(d));
}

// "Algorithm 6": every n x n and n x d matrix in slow memory.
void small_cache_weights(const Setting& setting, Weights& x, const Tiles& tiles, bool both) {
  Machine& machine = setting.machine;
  const int64_t n = x.t1.rows, d = x.t1.cols;
  product(machine, x.h, plain(x.a3), plain(x.y), d, tiles[0]);
  product(machine, x.t1, plain(x.a1), plain(x.x), d, tiles[1]);
  store_scores(setting, x.t1, x.a2, x.scores, x.lse, tiles[2]);
  for (const Span i : blocks(n, tiles[3].rows)) {  // g = exp(S - L) h - E, D = rowsum(g * O)
    const Tile lse = machine.load_accumulator(x.lse, i, kOneColumn);
    Tile row_dots = machine.accumulator(i.size(), 1);
    for (const Span c : blocks(d, tiles[3].cols)) {
      Tile out = machine.accumulator(i.size(), c.size());
      accumulate_probabilities(setting, out, x.scores, lse, i, x.h, c, tiles[3].depth);
      subtract_target(setting, out, row_dots, x.e, i, c);
      machine.store(out, x.g, i, c);
    }
    machine.store(row_dots, x.row_dots, i, kOneColumn);
  }
  for (const Span i : blocks(n, tiles[4].rows)) {  // p = f * (g h^T - D)
    const Tile lse = machine.load_accumulator(x.lse, i, kOneColumn);
    const Tile row_dots = machine.load_accumulator(x.row_dots, i, kOneColumn);
    for (const Span j : blocks(n, tiles[4].cols)) {
      if (!setting.pairs().any(i, j)) continue;
      Tile p = machine.accumulator(i.size(), j.size());
      accumulate(machine, p, plain(x.g), i, transposed(x.h), j, d, tiles[4].depth);
      apply_softmax_gradient(setting, x, lse, row_dots, p, i, j, both);
      machine.store(p, x.p, i, j);
    }
  }
  product_by_query(setting, x.t2, x.p, x.a2, tiles[5], setting.scale);
  product(machine, x.dx, transposed(x.a1), plain(x.t2), n, tiles[6]);
  if (!both) return;
  product_by_key(setting, x.u, x.scores, x.g, tiles[7]);
  product(machine, x.dy, transposed(x.a3), plain(x.u), n, tiles[8]);
}

}  // namespace tilewright::io_model
