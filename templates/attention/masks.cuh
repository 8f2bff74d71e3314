// Which keys a query sees, as policy types that share one shape:
//   key_tiles(query_tile)        the steps of the loop, their key tiles, and which need no mask
//   row(query).visible(key)      the mask itself, asked only in steps that are not clean
// AllVisible: every key below seqlen_k. RowRange: the keys of a row are one interval, which covers
// causal masks of either alignment and windows. TileList: any mask, as a list of key tiles that the
// host made; tiles left out cost nothing, and those seen in part come with a pattern of one bit a
// pair in place of row(query).
#pragma once

#include "attention/packed_rows.cuh"
#include "attention/params/tile_lists.h"
#include "attention/types.cuh"

namespace tilewright::attention {

// What a mask needs of a kernel's parameters, which may be given instead. With rows and columns
// exchanged, {-row_right, -row_left, seqlen_k, seqlen_q}, the mask says which queries see a key.
struct MaskExtent {
  long long row_left;
  long long row_right;
  int seqlen_q;
  int seqlen_k;
};

// The key tiles of one query tile, each a step: those in [clean_begin, clean_end) are visible to
// every row. Only the last one may reach beyond seqlen_k, and then it is not clean.
struct KeyTiles {
  int begin;
  int end;
  int clean_begin;
  int clean_end;

  __device__ __forceinline__ bool clean(int tile) const {
    return tile >= clean_begin && tile < clean_end;
  }
  __device__ __forceinline__ int key_tile(int step) const { return step; }
};

// Keys [begin, end) of one row.
struct KeyInterval {
  int begin;
  int end;
  __device__ __forceinline__ bool visible(int key) const { return key >= begin && key < end; }
};

// The keys of a row, counted from the first-th.
template <class Keys>
struct KeysFrom {
  Keys keys;
  int first;
  __device__ __forceinline__ bool visible(int offset) const { return keys.visible(first + offset); }
};

template <class Mask>
concept KeyMask = requires(const Mask& mask, int index) {
  mask.key_tiles(index).clean(index);
  mask.key_tiles(index).key_tile(index);
};

template <int kTileM, int kTileN>
struct AllVisible {
  using Row = KeyInterval;
  int seqlen_k;

  template <class Params>
  __device__ __forceinline__ explicit AllVisible(const Params& params)
      : seqlen_k(params.seqlen_k) {}

  __device__ __forceinline__ KeyTiles key_tiles(int) const {
    return {0, ceil_div(seqlen_k, kTileN), 0, seqlen_k / kTileN};
  }
  __device__ __forceinline__ KeyInterval row(int) const { return {0, seqlen_k}; }
};

// Rows are those of kPackedHeads query heads (packed_rows.cuh).
template <int kTileM, int kTileN, int kPackedHeads = 1>
struct RowRange {
  using Row = KeyInterval;
  long long row_left;
  long long row_right;
  int seqlen_q;
  int seqlen_k;

  template <class Params>
  __device__ __forceinline__ explicit RowRange(const Params& params)
      : row_left(params.row_left),
        row_right(params.row_right),
        seqlen_q(params.seqlen_q),
        seqlen_k(params.seqlen_k) {}

  __device__ __forceinline__ KeyTiles key_tiles(int query_tile) const {
    const int first = query_tile * kTileM;
    const int num_rows = seqlen_q * kPackedHeads;
    const int last = (num_rows - first < kTileM ? num_rows : first + kTileM) - 1;
    // Both ends of an interval grow with the row: what some row sees, and what all rows see.
    const KeyInterval some = {row(first).begin, row(last).end};
    const KeyInterval all = {row(last).begin, row(first).end};
    // Bounds may contradict each other, as causal=top-left and a window of other rows do: no row
    // sees a key then, though the first begin may lie before the last end.
    if (row_left > row_right || some.begin >= some.end) return {0, 0, 0, 0};
    KeyTiles tiles = {some.begin / kTileN, ceil_div(some.end, kTileN), ceil_div(all.begin, kTileN),
                      all.end / kTileN};
    if (tiles.clean_begin >= tiles.clean_end) tiles.clean_begin = tiles.clean_end = tiles.begin;
    return tiles;
  }
  __device__ __forceinline__ KeyInterval row(int row) const {
    const int query = place_of_row<kPackedHeads>(row).query;
    return {clamp_to_int(row_left + query, 0, seqlen_k),
            clamp_to_int(row_right + query + 1, 0, seqlen_k)};
  }
};

// The key tiles of one query tile by a list: steps are places in it. Only the last one may reach
// beyond seqlen_k, and then it is not clean.
struct ListedKeyTiles {
  int begin;
  int end;
  const TileLists& lists;  // a pointer from here would take registers through the loop

  __device__ __forceinline__ bool clean(int step) const { return lists.entries[step].pattern < 0; }
  __device__ __forceinline__ int key_tile(int step) const { return lists.entries[step].key_tile; }
};

// One row's bits of a tile from column `first` on, of which one lane of an MMA accumulator looks at
// those 8·n and 8·n + 1 further: `first` is below 7, so that no sum crosses into the next word.
template <int kTileN>
struct KeyBits {
  unsigned words[ceil_div(kTileN, 32)];
  __device__ __forceinline__ bool visible(int offset) const {
    return words[offset / 32] >> (offset % 32) & 1u;
  }
};

template <int kTileN>
struct TilePattern {
  const unsigned* words;
  __device__ __forceinline__ KeyBits<kTileN> row(int row, int first) const {
    constexpr int kWords = ceil_div(kTileN, 32);
    KeyBits<kTileN> bits;
#pragma unroll
    for (int i = 0; i < kWords; ++i) bits.words[i] = words[row * kWords + i] >> first;
    return bits;
  }
};

template <int kTileM, int kTileN>
struct TileList {
  const TileLists& lists;
  long long first;  // of this (batch, head)'s list among ranges and order

  template <class Params>
  __device__ __forceinline__ TileList(const Params& params, int batch, int head)
      : lists(params.tile_lists),
        first((static_cast<long long>(batch) * lists.batch_stride + head * lists.head_stride) *
              params.num_query_tiles) {}

  // The query tile of a block by its place in the order of work.
  __device__ __forceinline__ int query_tile(int place) const { return lists.order[first + place]; }
  __device__ __forceinline__ ListedKeyTiles key_tiles(int query_tile) const {
    const KeyTileRange range = lists.ranges[first + query_tile];
    return {range.begin, range.end, lists};
  }
  __device__ __forceinline__ TilePattern<kTileN> pattern(const ListedKeyTiles& tiles,
                                                         int step) const {
    constexpr int kPatternWords = kTileM * ceil_div(kTileN, 32);
    return {lists.patterns + static_cast<long long>(lists.entries[step].pattern) * kPatternWords};
  }
};

}  // namespace tilewright::attention
