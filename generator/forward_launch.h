// What the launches of all forward families have in common.
#pragma once

#include "core/arch.h"
#include "generator/launch.h"
#include "templates/attention/params/forward.h"
#include "tilewright/kernel.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright {

// What a family's config says of them.
struct ForwardTile {
  int tile_m = 0;
  int head_dim_qk = 0, head_dim_v = 0;
  int packed_heads = 1;  // query heads whose rows a tile holds
};

bool has_no_output(const Shape& shape);

// Sizes, factors and the order of blocks of a shape that has output and whose lengths were checked:
// all but the mask, pages, pointers and strides. kUnsupportedProblem where the grid is too large,
// or heads are packed that do not make up the groups.
Result<attention::ForwardParams> forward_params(const Problem& problem, const ForwardTile& tile,
                                                const Arch& arch, const Shape& shape);

// One block a query tile of (batch, packed heads).
Dim3 forward_grid(const attention::ForwardParams& params, int packed_heads = 1);

// The mask as an interval of keys a row: for the lengths of the shape, or to be aligned sequence by
// sequence.
void set_row_bounds(const Problem& problem, const Shape& shape, bool lengths_vary,
                    attention::ForwardParams& params);

void bind_forward(const BoundTensors& tensors, attention::ForwardParams& params);

}  // namespace tilewright
