// The grid of a kernel whose blocks take tiles of (batch, head) pairs, and their order.
#pragma once

#include <cstdint>

#include "core/arch.h"
#include "templates/attention/params/block_order.h"
#include "tilewright/kernel.h"
#include "tilewright/result.h"

namespace tilewright {

// The blocks of one kernel: `tiles` for every (batch, head).
struct BlockGrid {
  int64_t heads, tiles;
  // What one head's blocks read over and over, and how many heads share it.
  int64_t shared_bytes = 1;
  int64_t sharers = 1;
};
// Pairs whose shared bytes fill half of L2 together run side by side. kUnsupportedProblem where the
// grid exceeds 32 bits.
Result<attention::BlockOrder> block_order(const BlockGrid& grid, const Shape& shape,
                                          const Arch& arch);

int64_t num_blocks(const attention::BlockOrder& order);

}  // namespace tilewright
