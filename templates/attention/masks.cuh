// Which keys a query sees, as policy types that share one shape:
//   key_tiles(query_tile)        how far to loop, and which key tiles need no mask
//   row(query).visible(key)      the mask itself, asked only in tiles that are not clean
// AllVisible: every key below seqlen_k. RowRange: the keys of a row are one interval, which covers
// causal masks of either alignment and windows.
#pragma once

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

// The key tiles of one query tile: those in [clean_begin, clean_end) are visible to every row. Only
// the last one may reach beyond seqlen_k, and then it is not clean.
struct KeyTiles {
  int begin;
  int end;
  int clean_begin;
  int clean_end;

  __device__ __forceinline__ bool clean(int tile) const {
    return tile >= clean_begin && tile < clean_end;
  }
};

// Keys [begin, end) of one row.
struct KeyInterval {
  int begin;
  int end;
  __device__ __forceinline__ bool visible(int key) const { return key >= begin && key < end; }
};

template <class Mask>
concept KeyMask = requires(const Mask& mask, int index) {
  typename Mask::Row;
  mask.key_tiles(index).clean(index);
  mask.row(index).visible(index);
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

template <int kTileM, int kTileN>
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
    const int last = (seqlen_q - first < kTileM ? seqlen_q : first + kTileM) - 1;
    // Both ends of an interval grow with the row: what some row sees, and what all rows see.
    const KeyInterval some = {row(first).begin, row(last).end};
    const KeyInterval all = {row(last).begin, row(first).end};
    if (some.begin >= some.end) return {0, 0, 0, 0};
    KeyTiles tiles = {some.begin / kTileN, ceil_div(some.end, kTileN), ceil_div(all.begin, kTileN),
                      all.end / kTileN};
    if (tiles.clean_begin >= tiles.clean_end) tiles.clean_begin = tiles.clean_end = tiles.begin;
    return tiles;
  }
  __device__ __forceinline__ KeyInterval row(int query) const {
    return {clamp_to_int(row_left + query, 0, seqlen_k),
            clamp_to_int(row_right + query + 1, 0, seqlen_k)};
  }
};

}  // namespace tilewright::attention
