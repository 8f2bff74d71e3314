// The place of a block in the grid's order of work.
#pragma once

#include "attention/params/block_order.h"
#include "ptx/warp.cuh"

namespace tilewright::attention {

struct TileOfPair {
  int tile;
  int pair;
};

__device__ __forceinline__ TileOfPair tile_of_block(const BlockOrder& order) {
  const unsigned block = ptx::block_index();
  const unsigned num_tiles = static_cast<unsigned>(order.num_tiles);
  const unsigned section_size = static_cast<unsigned>(order.section_size);
  const unsigned section = block / (section_size * num_tiles);
  const unsigned in_section = block - section * (section_size * num_tiles);
  const unsigned first = section * section_size;
  const unsigned after = static_cast<unsigned>(order.num_pairs) - first;
  const unsigned pairs = after < section_size ? after : section_size;
  const unsigned tile = in_section / pairs;
  return {static_cast<int>(tile), static_cast<int>(first + in_section - tile * pairs)};
}

}  // namespace tilewright::attention
