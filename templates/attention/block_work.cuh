// Which part of a forward problem a block computes.
#pragma once

#include "attention/block_order.cuh"
#include "attention/params/forward.h"

namespace tilewright::attention {

struct BlockWork {
  int query_tile;
  int batch;
  int head;
  int kv_head;
};

// Within a section the last query tile of every pair comes first (the longest under a causal mask).
// kPackedHeads: query heads of a block, of which `head` is the first.
template <int kPackedHeads = 1>
__device__ __forceinline__ BlockWork block_work(const ForwardParams& params) {
  const TileOfPair place = tile_of_block(
      {params.num_query_tiles, params.section_size, params.num_batch_heads / kPackedHeads});
  const int packs = params.num_heads_q / kPackedHeads;
  const int batch = place.pair / packs;
  const int head = (place.pair - batch * packs) * kPackedHeads;
  return {params.num_query_tiles - 1 - place.tile, batch, head, head / params.group_size};
}

}  // namespace tilewright::attention
