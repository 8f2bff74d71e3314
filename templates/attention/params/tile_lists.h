// The key tiles that each query tile visits, for masks that are no interval a row. Plain data, the
// same layout on the host and under NVRTC; the host builds it (generator/tile_schedule.h), the
// caller uploads it.
#pragma once

namespace tilewright::attention {

// One key tile of a query tile's list.
struct KeyTileEntry {
  int key_tile;
  int pattern;  // index among the patterns; negative: every pair is visible
};

// The entries [begin, end) of one query tile, in ascending order of key tile.
struct KeyTileRange {
  int begin;
  int end;
};

// A list per (batch, head), or one shared by all batches or all heads (stride 0).
struct TileLists {
  const KeyTileRange* ranges;  // [num_lists, num_query_tiles]
  const int* order;            // [num_lists, num_query_tiles]: query tiles, longest list first
  const KeyTileEntry* entries;
  // Bit j % 32 of word [pattern, i, j / 32] is set where row i sees key j of the tile; rows are
  // whole words.
  const unsigned* patterns;
  // Lists from one batch, or head, to the next.
  int batch_stride;
  int head_stride;
};

}  // namespace tilewright::attention
