// Where the small-cache algorithms stop winning: from the leading terms alone, and with the best
// integer tiles of a given problem. Both in terms of x = d / sqrt(M).
#pragma once

#include <cstdint>

#include "io_model/algorithm.h"
#include "io_model/closed_form.h"
#include "tilewright/result.h"

namespace tilewright::io_model {

// The M / d^2 at which flash x^2 = tiles x + squares, in words n^2: flash, tiles and squares are
// the constants of n^2 d^2 / M, n^2 d / sqrt(M) and n^2. `tile_shrink` is sqrt(M) / b: 1 for the
// best tiles, 2 for b = sqrt(M / 4). 0 if either algorithm has no such leading terms.
double crossover_equation(Algorithm flash, Algorithm small_cache, double tile_shrink = 1.0);

// Where `small_cache` last moves fewer words than `flash` as M grows from d^2 / 20 to 8 d^2, both
// with their best tiles: found on a grid of d^2 / 200, then to the word between two points of it.
// kNotFound if it never does.
Result<int64_t> crossover_scan(Algorithm flash, Algorithm small_cache, const Case& problem_case);

}  // namespace tilewright::io_model
