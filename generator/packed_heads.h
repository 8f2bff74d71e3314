// When the query heads of a group share the rows of a tile (templates/attention/packed_rows.cuh).
#pragma once

#include <cstdint>

namespace tilewright {

// Query heads of a group of `group_size` that tiles of `tile_m` rows should hold: the whole group
// where that leaves at least a tenth fewer blocks, else 1. A block costs a pass over K and V
// however many of its rows exist, so blocks are what packing saves. Below a tenth it saves less
// than it costs: rows of Q and O that are found one by one and lie apart.
int64_t heads_to_pack(int64_t seqlen_q, int64_t group_size, int64_t tile_m);

}  // namespace tilewright
