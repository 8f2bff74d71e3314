// Runs the attention algorithms on the two-level machine, with or without arithmetic: the same
// loops give real results and counts, or counts alone. Stages and tiles are those of closed_form.h.
#pragma once

#include "io_model/algorithm.h"
#include "io_model/closed_form.h"
#include "io_model/machine.h"

namespace tilewright::io_model {

// What the forward and backward algorithms find and leave in slow memory. Row vectors are
// matrices of one column.
struct Attention {
  Matrix q, k, v, out;
  Matrix lse;               // L, natural log; -inf for a row without keys
  Matrix row_max, row_sum;  // flash1's statistics; L = row_max + ln row_sum
  Matrix d_out, row_dots;   // dO and D
  Matrix dq, dk, dv;
  Matrix scores, probabilities, d_scores;  // over the pairs
};
Attention make_attention(const Machine& machine, const Shape& shape);

// The gradients of S = scale A1 X A2^T, h = A3 Y, loss 1/2 |softmax(S) h - E|^2.
struct Weights {
  Matrix a1, a2, a3, e, x, y;
  Matrix t1, h, g, lse, row_dots, t2, u;
  Matrix scores, p;  // p is dS; scores hold f at the end of small-cache-dx-dy
  Matrix dx, dy;
};
Weights make_weights(const Machine& machine, const Shape& shape);

// Runs stage after stage; tiles as for closed_form(), clamped alike. The traffic counts from the
// machine's making. kInvalidArgument: wrong tiles, or an algorithm of the other task;
// kOutOfMemory: the tiles did not fit into fast memory.
Result<Traffic> run(Algorithm algorithm, Machine& machine, const Case& problem_case,
                    double softmax_scale, const Tiles& tiles, Attention& tensors);
Result<Traffic> run(Algorithm algorithm, Machine& machine, const Case& problem_case,
                    double softmax_scale, const Tiles& tiles, Weights& tensors);

// Counts by running with arithmetic off.
Result<Traffic> count_by_loops(Algorithm algorithm, const Case& problem_case, int64_t fast_words,
                               const Tiles& tiles);

}  // namespace tilewright::io_model
