// What one query row adds to the gradients, in fp64: shared by the backward pass and its bounds.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "reference/backward.h"
#include "reference/score_row.h"

namespace tilewright::reference {

// Per visible key, in the order of scores.keys.
struct GradientRow {
  RowScores scores;
  std::vector<double> weights;       // P
  std::vector<double> slopes;        // d score / d (scale q·k): 1 without softcap
  std::vector<double> dp;            // dO · v
  std::vector<double> dp_magnitude;  // sum |dO||v|
  double delta = 0.0;                // D = <dO, O>
};

GradientRow gradient_row(const Sizes& sizes, const BackwardInputs& inputs,
                         const Visibility& visible, const ScoreParameters& parameters,
                         const RowIndex& row);

// Calls body(row) for every query row. Rows that add to the same dK and dV come one after another
// on one thread, always in the same order; others run side by side.
void for_each_row_by_key_head(const Sizes& sizes, const std::function<void(const RowIndex&)>& body);

}  // namespace tilewright::reference
