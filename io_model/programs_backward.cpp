// The backward algorithms, sections 1.7 and 1.10 of the notes, as programs for the two-level
// machine.
#include "io_model/programs.h"

namespace tilewright::io_model {
namespace {

// dS = P * (dP - rowsum(P * dP)), row by row through fast memory; d_scores hold dP before.
void score_gradient_rows(const Setting& setting, const Matrix& probabilities, Matrix& d_scores) {
  const Span keys = whole(d_scores.cols);
  for (const Span row : blocks(d_scores.rows, 1)) {
    const Tile p = setting.machine.load(probabilities, row, keys);
    Tile ds = setting.machine.load(d_scores, row, keys);
    if (setting.machine.arithmetic()) {
      double row_dot = 0;
      for (int64_t key = 0; key < keys.end; ++key) row_dot += p.at(0, key) * ds.at(0, key);
      score_gradient_row(ds, 0, p, row_dot);
    }
    setting.machine.store(ds, d_scores, row, keys);
  }
}

// sum(row) += weight * operand(row): one word of P or dS against one row.
void add_row(const Setting& setting, Tile& sum, int64_t sum_row, double weight, const Tile& operand,
             int64_t operand_row) {
  if (!setting.machine.arithmetic()) return;
  for (int64_t col = 0; col < sum.cols(); ++col) {
    sum.at(sum_row, col) += weight * operand.at(operand_row, col);
  }
}

double value_of(const Setting& setting, const Tile& word) {
  return setting.machine.arithmetic() ? word.at(0) : 0.0;
}

}  // namespace

void store_row_dots(const Setting& setting, Attention& x, int64_t depth) {
  Machine& machine = setting.machine;
  for (const Span i : blocks(x.out.rows, 1)) {
    Tile dot = machine.accumulator(1, 1);
    for (const Span slab : blocks(x.out.cols, depth)) {
      const Tile d_out = machine.load(x.d_out, i, slab);
      const Tile out = machine.load(x.out, i, slab);
      multiply_add(machine, dot, plain(d_out), transposed(out));
    }
    machine.store(dot, x.row_dots, i, kOneColumn);
  }
}

void standard_ideal_backward(const Setting& setting, Attention& x) {
  Machine& machine = setting.machine;
  const Shape& s = setting.shape();
  const Span keys = whole(s.seqlen_k), qk = whole(s.head_dim_qk), dv = whole(s.head_dim_v);
  {  // dV = P^T dO: dV stays
    Tile sum = machine.accumulator(s.seqlen_k, s.head_dim_v);
    for (const Span i : blocks(s.seqlen_q, 1)) {
      const Tile d_out = machine.load(x.d_out, i, dv);
      for (const Span j : blocks(s.seqlen_k, 1)) {
        const Tile p = machine.load(x.probabilities, i, j);
        add_row(setting, sum, j.begin, value_of(setting, p), d_out, 0);
      }
    }
    machine.store(sum, x.dv, keys, dv);
  }
  {  // dP = dO V^T: V stays
    const Tile v = machine.load(x.v, keys, dv);
    for (const Span i : blocks(s.seqlen_q, 1)) {
      const Tile d_out = machine.load(x.d_out, i, dv);
      for (const Span j : blocks(s.seqlen_k, 1)) {
        Tile dp = machine.accumulator(1, 1);
        if (machine.arithmetic()) {
          for (int64_t col = 0; col < dv.end; ++col)
            dp.at(0) += d_out.at(0, col) * v.at(j.begin, col);
        }
        machine.store(dp, x.d_scores, i, j);
      }
    }
  }
  score_gradient_rows(setting, x.probabilities, x.d_scores);
  {  // dQ = scale dS K: K stays
    const Tile k = machine.load(x.k, keys, qk);
    for (const Span i : blocks(s.seqlen_q, 1)) {
      Tile dq = machine.accumulator(1, s.head_dim_qk);
      for (const Span j : blocks(s.seqlen_k, 1)) {
        const Tile ds = machine.load(x.d_scores, i, j);
        add_row(setting, dq, 0, setting.scale * value_of(setting, ds), k, j.begin);
      }
      machine.store(dq, x.dq, i, qk);
    }
  }
  {  // dK = scale dS^T Q: dK stays
    Tile sum = machine.accumulator(s.seqlen_k, s.head_dim_qk);
    for (const Span i : blocks(s.seqlen_q, 1)) {
      const Tile q = machine.load(x.q, i, qk);
      for (const Span j : blocks(s.seqlen_k, 1)) {
        const Tile ds = machine.load(x.d_scores, i, j);
        add_row(setting, sum, j.begin, setting.scale * value_of(setting, ds), q, 0);
      }
    }
    machine.store(sum, x.dk, keys, qk);
  }
}

void standard_tiled_backward(const Setting& setting, Attention& x, const Tiles& tiles) {
  Machine& machine = setting.machine;
  const Shape& s = setting.shape();
  product(machine, x.dv, transposed(x.probabilities), plain(x.d_out), s.seqlen_q, tiles[0]);
  product(machine, x.d_scores, plain(x.d_out), transposed(x.v), s.head_dim_v, tiles[1]);
  score_gradient_rows(setting, x.probabilities, x.d_scores);
  product(machine, x.dq, plain(x.d_scores), plain(x.k), s.seqlen_k, tiles[3], setting.scale);
  product(machine, x.dk, transposed(x.d_scores), plain(x.q), s.seqlen_q, tiles[4], setting.scale);
}

// FlashAttention, algorithm 4: reads O with every tile and computes D again.
void flash1_backward(const Setting& setting, Attention& x, const Block& block) {
  Machine& machine = setting.machine;
  const Shape& s = setting.shape();
  const Span qk = whole(s.head_dim_qk), dv = whole(s.head_dim_v);
  for (const Span j : blocks(s.seqlen_k, block.cols)) {
    const Tile k = machine.load(x.k, j, qk), v = machine.load(x.v, j, dv);
    Tile dk = machine.accumulator(j.size(), s.head_dim_qk);
    Tile dv_sum = machine.accumulator(j.size(), s.head_dim_v);
    for (const Span i : blocks(s.seqlen_q, block.rows)) {
      if (!setting.pairs().any(i, j)) continue;
      const Tile q = machine.load(x.q, i, qk), out = machine.load(x.out, i, dv);
      const Tile d_out = machine.load(x.d_out, i, dv);
      Tile dq = machine.load_accumulator(x.dq, i, qk);
      Tile lse = machine.load_accumulator(x.row_max, i, kOneColumn);
      Tile row_dots = machine.load_accumulator(x.row_sum, i, kOneColumn);
      Tile p = machine.accumulator(i.size(), j.size());
      Tile ds = machine.accumulator(i.size(), j.size());
      finish_lse(setting, lse, row_dots);  // m becomes L, then l makes room for D
      if (machine.arithmetic()) {
        for (int64_t row = 0; row < i.size(); ++row) {
          row_dots.at(row) = 0;
          for (int64_t col = 0; col < dv.end; ++col) {
            row_dots.at(row) += d_out.at(row, col) * out.at(row, col);
          }
        }
      }
      multiply_add(machine, p, plain(q), transposed(k), setting.scale);
      exponentiate(setting, p, lse, i, j);
      multiply_add(machine, dv_sum, transposed(p), plain(d_out));
      multiply_add(machine, ds, plain(d_out), transposed(v));
      score_gradient(setting, ds, p, row_dots);
      multiply_add(machine, dq, plain(ds), plain(k), setting.scale);
      machine.store(dq, x.dq, i, qk);
      multiply_add(machine, dk, transposed(ds), plain(q), setting.scale);
    }
    machine.store(dk, x.dk, j, qk);
    machine.store(dv_sum, x.dv, j, dv);
  }
}

// FlashAttention-2's backward: D and L given, key blocks outside, dQ read and written per block.
void one_pass_backward(const Setting& setting, Attention& x, const Tiles& tiles) {
  Machine& machine = setting.machine;
  const Shape& s = setting.shape();
  const Span qk = whole(s.head_dim_qk), dv = whole(s.head_dim_v);
  store_row_dots(setting, x, tiles[0].depth);
  for (const Span j : blocks(s.seqlen_k, tiles[1].cols)) {
    const Tile k = machine.load(x.k, j, qk), v = machine.load(x.v, j, dv);
    Tile dk = machine.accumulator(j.size(), s.head_dim_qk);
    Tile dv_sum = machine.accumulator(j.size(), s.head_dim_v);
    for (const Span i : blocks(s.seqlen_q, tiles[1].rows)) {
      if (!setting.pairs().any(i, j)) continue;
      const Tile q = machine.load(x.q, i, qk), d_out = machine.load(x.d_out, i, dv);
      Tile dq = machine.load_accumulator(x.dq, i, qk);
      const Tile lse = machine.load_accumulator(x.lse, i, kOneColumn);
      const Tile row_dots = machine.load_accumulator(x.row_dots, i, kOneColumn);
      Tile p = machine.accumulator(i.size(), j.size());
      Tile ds = machine.accumulator(i.size(), j.size());
      multiply_add(machine, p, plain(q), transposed(k), setting.scale);
      exponentiate(setting, p, lse, i, j);
      multiply_add(machine, dv_sum, transposed(p), plain(d_out));
      multiply_add(machine, ds, plain(d_out), transposed(v));
      score_gradient(setting, ds, p, row_dots);
      multiply_add(machine, dq, plain(ds), plain(k), setting.scale);
      machine.store(dq, x.dq, i, qk);
      multiply_add(machine, dk, transposed(ds), plain(q), setting.scale);
    }
    machine.store(dk, x.dk, j, qk);
    machine.store(dv_sum, x.dv, j, dv);
  }
}

// dK and dV with key blocks outside, then dQ with query blocks outside; P and dP computed twice.
void two_pass_backward(const Setting& setting, Attention& x, const Tiles& tiles) {
  Machine& machine = setting.machine;
  const Shape& s = setting.shape();
  const Span qk = whole(s.head_dim_qk), dv = whole(s.head_dim_v);
  store_row_dots(setting, x, tiles[0].depth);
  for (const Span j : blocks(s.seqlen_k, tiles[1].cols)) {
    const Tile k = machine.load(x.k, j, qk), v = machine.load(x.v, j, dv);
    Tile dk = machine.accumulator(j.size(), s.head_dim_qk);
    Tile dv_sum = machine.accumulator(j.size(), s.head_dim_v);
    for (const Span i : blocks(s.seqlen_q, tiles[1].rows)) {
      if (!setting.pairs().any(i, j)) continue;
      const Tile q = machine.load(x.q, i, qk), d_out = machine.load(x.d_out, i, dv);
      const Tile lse = machine.load_accumulator(x.lse, i, kOneColumn);
      const Tile row_dots = machine.load_accumulator(x.row_dots, i, kOneColumn);
      Tile p = machine.accumulator(i.size(), j.size());
      Tile ds = machine.accumulator(i.size(), j.size());
      multiply_add(machine, p, plain(q), transposed(k), setting.scale);
      exponentiate(setting, p, lse, i, j);
      multiply_add(machine, dv_sum, transposed(p), plain(d_out));
      multiply_add(machine, ds, plain(d_out), transposed(v));
      score_gradient(setting, ds, p, row_dots);
      multiply_add(machine, dk, transposed(ds), plain(q), setting.scale);
    }
    machine.store(dk, x.dk, j, qk);
    machine.store(dv_sum, x.dv, j, dv);
  }
  for (const Span i : blocks(s.seqlen_q, tiles[2].rows)) {
    const Tile q = machine.load(x.q, i, qk), d_out = machine.load(x.d_out, i, dv);
    const Tile lse = machine.load_accumulator(x.lse, i, kOneColumn);
    const Tile row_dots = machine.load_accumulator(x.row_dots, i, kOneColumn);
    Tile dq = machine.accumulator(i.size(), s.head_dim_qk);
    for (const Span j : blocks(s.seqlen_k, tiles[2].cols)) {
      if (!setting.pairs().any(i, j)) continue;
      Tile p = machine.accumulator(i.size(), j.size());
      Tile ds = machine.accumulator(i.size(), j.size());
      {
        const Tile v = machine.load(x.v, j, dv);
        multiply_add(machine, ds, plain(d_out), transposed(v));
      }
      const Tile k = machine.load(x.k, j, qk);  // where V was
      multiply_add(machine, p, plain(q), transposed(k), setting.scale);
      exponentiate(setting, p, lse, i, j);
      score_gradient(setting, ds, p, row_dots);
      multiply_add(machine, dq, plain(ds), plain(k), setting.scale);
    }
    machine.store(dq, x.dq, i, qk);
  }
}

// "Algorithm 6" for dQ, dK, dV: P and dS in slow memory, one accumulator tile at a time.
void small_cache_backward(const Setting& setting, Attention& x, const Tiles& tiles) {
  Machine& machine = setting.machine;
  const Shape& s = setting.shape();
  store_row_dots(setting, x, tiles[0].depth);
  const Block& block = tiles[1];
  for (const Span i : blocks(s.seqlen_q, block.rows)) {
    const Tile lse = machine.load_accumulator(x.lse, i, kOneColumn);
    const Tile row_dots = machine.load_accumulator(x.row_dots, i, kOneColumn);
    for (const Span j : blocks(s.seqlen_k, block.cols)) {
      if (!setting.pairs().any(i, j)) continue;
      {  // P(i, j) = exp(scale Q(i) K(j)^T - L(i))
        Tile p = machine.accumulator(i.size(), j.size());
        accumulate(machine, p, plain(x.q), i, transposed(x.k), j, s.head_dim_qk, block.depth,
                   setting.scale);
        exponentiate(setting, p, lse, i, j);
        machine.store(p, x.probabilities, i, j);
      }
      // dS(i, j) = P(i, j) * (dO(i) V(j)^T - D(i)), P read back a row at a time
      Tile ds = machine.accumulator(i.size(), j.size());
      accumulate(machine, ds, plain(x.d_out), i, transposed(x.v), j, s.head_dim_v, block.depth);
      machine.stream_rows(x.probabilities, i, j, [&](int64_t row, const Tile& p) {
        score_gradient_row(ds, row, p, row_dots.at(row));
      });
      machine.store(ds, x.d_scores, i, j);
    }
  }
  product_by_key(setting, x.dv, x.probabilities, x.d_out, tiles[2]);
  product_by_query(setting, x.dq, x.d_scores, x.k, tiles[3], setting.scale);
  product_by_key(setting, x.dk, x.d_scores, x.q, tiles[4], setting.scale);
}

// The same, given P.
void small_cache_kept_backward(const Setting& setting, Attention& x, const Tiles& tiles) {
  Machine& machine = setting.machine;
  const Shape& s = setting.shape();
  store_row_dots(setting, x, tiles[0].depth);
  const Block& block = tiles[1];
  for (const Span i : blocks(s.seqlen_q, block.rows)) {
    const Tile row_dots = machine.load_accumulator(x.row_dots, i, kOneColumn);
    for (const Span j : blocks(s.seqlen_k, block.cols)) {
      if (!setting.pairs().any(i, j)) continue;
      Tile ds = machine.accumulator(i.size(), j.size());
      accumulate(machine, ds, plain(x.d_out), i, transposed(x.v), j, s.head_dim_v, block.depth);
      machine.stream_rows(x.probabilities, i, j, [&](int64_t row, const Tile& p) {
        score_gradient_row(ds, row, p, row_dots.at(row));
      });
      machine.store(ds, x.d_scores, i, j);
    }
  }
  product_by_key(setting, x.dv, x.probabilities, x.d_out, tiles[2]);
  product_by_query(setting, x.dq, x.d_scores, x.k, tiles[3], setting.scale);
  product_by_key(setting, x.dk, x.d_scores, x.q, tiles[4], setting.scale);
}

}  // namespace tilewright::io_model
