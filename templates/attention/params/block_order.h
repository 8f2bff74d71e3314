// In which order the blocks of a grid take tiles of (batch, head) pairs. Plain data, the same
// layout on the host and under NVRTC.
#pragma once

namespace tilewright::attention {

// grid.x counts sections of `section_size` pairs; within one, the first tile of every pair comes
// first. Pairs of one section run side by side, so that they may share the L2 cache.
struct BlockOrder {
  int num_tiles;
  int section_size;
  int num_pairs;
};

}  // namespace tilewright::attention
