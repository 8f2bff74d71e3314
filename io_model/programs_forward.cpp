// The forward algorithms, section 1.6 of the notes, as programs for the two-level machine.
#include "io_model/programs.h"

namespace tilewright::io_model {
namespace {

// P = softmax(S), row by row through fast memory.
void softmax_rows(const Setting& setting, const Matrix& scores, Matrix& probabilities) {
  const Span keys = whole(scores.cols);
  for (const Span row : blocks(scores.rows, 1)) {
    Tile p = setting.machine.load(scores, row, keys);
    if (setting.machine.arithmetic()) {
      hide(setting, p, row, keys);
      double max = kMinusInfinity, sum = 0;
      for (int64_t key = 0; key < keys.end; ++key) max = std::fmax(max, p.at(0, key));
      for (int64_t key = 0; key < keys.end; ++key) {
        p.at(0, key) = max == kMinusInfinity ? 0.0 : std::exp(p.at(0, key) - max);
        sum += p.at(0, key);
      }
      for (int64_t key = 0; key < keys.end; ++key) p.at(0, key) /= sum > 0 ? sum : 1.0;
    }
    setting.machine.store(p, probabilities, row, keys);
  }
}

void scale_row(Tile& tile, int64_t row, double factor) {
  for (int64_t col = 0; col < tile.cols(); ++col) tile.at(row, col) *= factor;
}

}  // namespace

void standard_ideal_forward(const Setting& setting, Attention& x) {
  Machine& machine = setting.machine;
  const Shape& s = setting.shape();
  {  // S = scale Q K^T: K stays, a row of Q at a time
    const Tile k = machine.load(x.k, whole(s.seqlen_k), whole(s.head_dim_qk));
    for (const Span i : blocks(s.seqlen_q, 1)) {
      const Tile q = machine.load(x.q, i, whole(s.head_dim_qk));
      for (const Span j : blocks(s.seqlen_k, 1)) {
        Tile score = machine.accumulator(1, 1);
        if (machine.arithmetic()) {
          for (int64_t col = 0; col < s.head_dim_qk; ++col) {
            score.at(0) += setting.scale * q.at(0, col) * k.at(j.begin, col);
          }
        }
        machine.store(score, x.scores, i, j);
      }
    }
  }
  softmax_rows(setting, x.scores, x.probabilities);
  {  // O = P V: V stays, a row of O at a time
    const Tile v = machine.load(x.v, whole(s.seqlen_k), whole(s.head_dim_v));
    for (const Span i : blocks(s.seqlen_q, 1)) {
      Tile out = machine.accumulator(1, s.head_dim_v);
      for (const Span j : blocks(s.seqlen_k, 1)) {
        const Tile p = machine.load(x.probabilities, i, j);
        if (!machine.arithmetic()) continue;
        for (int64_t col = 0; col < s.head_dim_v; ++col) {
          out.at(0, col) += p.at(0) * v.at(j.begin, col);
        }
      }
      machine.store(out, x.out, i, whole(s.head_dim_v));
    }
  }
}

void standard_tiled_forward(const Setting& setting, Attention& x, const Tiles& tiles) {
  const Shape& s = setting.shape();
  product(setting.machine, x.scores, plain(x.q), transposed(x.k), s.head_dim_qk, tiles[0],
          setting.scale);
  softmax_rows(setting, x.scores, x.probabilities);
  product(setting.machine, x.out, plain(x.probabilities), plain(x.v), s.seqlen_k, tiles[2]);
}

// FlashAttention, algorithm 1: key blocks outside; O is kept normalised in slow memory.
void flash1_forward(const Setting& setting, Attention& x, const Block& block) {
  Machine& machine = setting.machine;
  const Shape& s = setting.shape();
  for (const Span j : blocks(s.seqlen_k, block.cols)) {
    const Tile k = machine.load(x.k, j, whole(s.head_dim_qk));
    const Tile v = machine.load(x.v, j, whole(s.head_dim_v));
    for (const Span i : blocks(s.seqlen_q, block.rows)) {
      if (!setting.pairs().any(i, j)) continue;
      const Tile q = machine.load(x.q, i, whole(s.head_dim_qk));
      Tile out = machine.load_accumulator(x.out, i, whole(s.head_dim_v));
      Tile row_max = machine.load_accumulator(x.row_max, i, kOneColumn);
      Tile row_sum = machine.load_accumulator(x.row_sum, i, kOneColumn);
      Tile scores = machine.accumulator(i.size(), j.size());
      multiply_add(machine, scores, plain(q), transposed(k), setting.scale);
      hide(setting, scores, i, j);
      online_softmax(setting, scores, row_max, row_sum, [&](int64_t row, double factor) {
        scale_row(out, row, factor * row_sum.at(row));  // row_sum is still the old one
      });
      multiply_add(machine, out, plain(scores), plain(v));
      if (machine.arithmetic()) {
        for (int64_t row = 0; row < i.size(); ++row) {
          if (row_sum.at(row) > 0) scale_row(out, row, 1 / row_sum.at(row));
        }
      }
      machine.store(out, x.out, i, whole(s.head_dim_v));
      machine.store(row_max, x.row_max, i, kOneColumn);
      machine.store(row_sum, x.row_sum, i, kOneColumn);
    }
  }
}

// FlashAttention-2: query blocks outside; O stays in fast memory and is divided once.
void flash2_forward(const Setting& setting, Attention& x, const Block& block) {
  Machine& machine = setting.machine;
  const Shape& s = setting.shape();
  for (const Span i : blocks(s.seqlen_q, block.rows)) {
    const Tile q = machine.load(x.q, i, whole(s.head_dim_qk));
    Tile out = machine.accumulator(i.size(), s.head_dim_v);
    Tile row_max = machine.accumulator(i.size(), 1, kMinusInfinity);
    Tile row_sum = machine.accumulator(i.size(), 1);
    for (const Span j : blocks(s.seqlen_k, block.cols)) {
      if (!setting.pairs().any(i, j)) continue;
      Tile scores = machine.accumulator(i.size(), j.size());
      {
        const Tile k = machine.load(x.k, j, whole(s.head_dim_qk));
        multiply_add(machine, scores, plain(q), transposed(k), setting.scale);
      }
      hide(setting, scores, i, j);
      online_softmax(setting, scores, row_max, row_sum,
                     [&](int64_t row, double factor) { scale_row(out, row, factor); });
      const Tile v = machine.load(x.v, j, whole(s.head_dim_v));  // where K was
      multiply_add(machine, out, plain(scores), plain(v));
    }
    if (machine.arithmetic()) {
      for (int64_t row = 0; row < i.size(); ++row) {
        if (row_sum.at(row) > 0) scale_row(out, row, 1 / row_sum.at(row));
      }
    }
    finish_lse(setting, row_max, row_sum);
    machine.store(out, x.out, i, whole(s.head_dim_v));
    machine.store(row_max, x.lse, i, kOneColumn);
  }
}

// Saha and Ye's square tiles, with an online log-sum-exp.
void square_forward(const Setting& setting, Attention& x, const Tiles& tiles) {
  Machine& machine = setting.machine;
  const Shape& s = setting.shape();
  store_scores(setting, x.q, x.k, x.scores, x.lse, tiles[0]);
  const Block& block = tiles[1];
  for (const Span i : blocks(s.seqlen_q, block.rows)) {  // O = exp(S - L) V
    const Tile lse = machine.load_accumulator(x.lse, i, kOneColumn);
    for (const Span c : blocks(s.head_dim_v, block.cols)) {
      Tile out = machine.accumulator(i.size(), c.size());
      accumulate_probabilities(setting, out, x.scores, lse, i, x.v, c, block.depth);
      machine.store(out, x.out, i, c);
    }
  }
}

}  // namespace tilewright::io_model
