// What a block of forward_sm80 is made of: the types that a config stands for, the part of the
// problem that falls to the block, and the rows that fall to a thread.
#pragma once

#include "attention/block_work.cuh"
#include "attention/config/forward_sm80.h"
#include "attention/masks.cuh"
#include "attention/packed_rows.cuh"
#include "attention/params/forward.h"
#include "attention/sequence.cuh"
#include "attention/softmax.cuh"
#include "attention/tile.cuh"
#include "attention/types.cuh"
#include "ptx/warp.cuh"

namespace tilewright::attention {

template <ForwardSm80Config kConfig>
struct ForwardSm80Block {
  static_assert(kConfig.dtype == Dtype::kFloat16 || kConfig.dtype == Dtype::kBFloat16,
                "forward_sm80 takes fp16 and bf16");
  static_assert(kConfig.head_dim_qk % 8 == 0 && kConfig.head_dim_qk >= 8 &&
                    kConfig.head_dim_qk <= 256,
                "head_dim_qk must be a multiple of 8 from 8 to 256");
  static_assert(kConfig.head_dim_v % 8 == 0 && kConfig.head_dim_v >= 8 && kConfig.head_dim_v <= 256,
                "head_dim_v must be a multiple of 8 from 8 to 256");
  static_assert(kConfig.tile_n % 16 == 0 && kConfig.tile_n > 0,
                "tile_n must be a multiple of 16, the inner size of P·V's MMA");
  static_assert(kConfig.num_warps > 0 && kConfig.tile_m % kConfig.num_warps == 0 &&
                    (kConfig.rows_per_warp() == 16 || kConfig.rows_per_warp() == 32),
                "tile_m must be 16 or 32 rows per warp");
  static_assert(kConfig.stages >= 1, "at least one stage");
  static_assert(kConfig.min_blocks_per_sm >= 1, "min_blocks_per_sm starts at 1");
  static_assert(kConfig.packed_heads >= 1, "a tile has rows of one head or more");
  static_assert(kConfig.packed_heads == 1 || !kConfig.tile_list,
                "a tile list is of the rows of one head");
  static_assert(!(kConfig.row_range && kConfig.tile_list),
                "a tile list says all that a row range would");

  using QTile = SharedTile<kConfig.tile_m, kConfig.head_dim_qk_padded()>;
  using KTile = SharedTile<kConfig.tile_n, kConfig.head_dim_qk_padded()>;
  using VTile = SharedTile<kConfig.tile_n, kConfig.head_dim_v>;
  using QRows =
      typename Select<(kConfig.packed_heads > 1), PackedRows<kConfig.packed_heads>, EvenRows>::Type;
  using KeyRows =
      typename Select<(kConfig.page_size > 0), PagedRows<kConfig.page_size>, EvenRows>::Type;
  template <class Tile, int kColumns, class Rows>
  using Loader = TileLoader<Tile, kColumns, kConfig.num_threads(), kConfig.strided, Rows>;
  using QLoader = Loader<QTile, kConfig.head_dim_qk, QRows>;
  using KLoader = Loader<KTile, kConfig.head_dim_qk, KeyRows>;
  using VLoader = Loader<VTile, kConfig.head_dim_v, KeyRows>;
  using Mask = typename Select<
      kConfig.tile_list, TileList<kConfig.tile_m, kConfig.tile_n>,
      typename Select<kConfig.row_range,
                      RowRange<kConfig.tile_m, kConfig.tile_n, kConfig.packed_heads>,
                      AllVisible<kConfig.tile_m, kConfig.tile_n>>::Type>::Type;
  static_assert(KeyMask<Mask>);

  static_assert(KTile::bytes() + VTile::bytes() == kConfig.stage_bytes() &&
                    QTile::bytes() == kConfig.q_bytes(),
                "the config's sizes are those the host allocates");

  using Softmax = OnlineSoftmax<2 * kConfig.row_fragments()>;
  using Scores = float[kConfig.row_fragments()][kConfig.key_fragments()][4];
  using Output = float[kConfig.row_fragments()][kConfig.out_fragments()][4];

  using Work = BlockWork;

  static __device__ __forceinline__ Work work_of_block(const ForwardParams& params) {
    Work work = block_work<kConfig.packed_heads>(params);
    if constexpr (kConfig.tile_list) {
      const int place = params.num_query_tiles - 1 - work.query_tile;
      work.query_tile = Mask(params, work.batch, work.head).query_tile(place);
    }
    return work;
  }

  static __device__ __forceinline__ Sequence sequence_of(const ForwardParams& params, int batch) {
    return attention::sequence_of<kConfig.varlen, (kConfig.page_size > 0)>(params, batch);
  }

  // Rows of the query tiles of a block's heads.
  static __device__ __forceinline__ int num_rows(const Sequence& sequence) {
    return sequence.seqlen_q * kConfig.packed_heads;
  }

  static __device__ __forceinline__ Mask mask_of(const ForwardParams& params, const Work& work,
                                                 const Sequence& sequence) {
    if constexpr (kConfig.tile_list) {
      return Mask(params, work.batch, work.head);
    } else {
      return Mask(sequence);
    }
  }

  // This block's part of the steps; with more parts than steps some are empty.
  template <class Tiles>
  static __device__ __forceinline__ Tiles part_of(const ForwardParams& params, Tiles tiles) {
    if constexpr (kConfig.split) {
      const int count = ceil_div(tiles.end - tiles.begin, params.num_splits);
      const int begin = tiles.begin + static_cast<int>(ptx::block_index_y()) * count;
      tiles.end = begin + count < tiles.end ? begin + count : tiles.end;
      tiles.begin = begin;
    }
    return tiles;
  }

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }

  static __device__ __forceinline__ int first_row_of_warp(const Work& work) {
    return work.query_tile * kConfig.tile_m + warp() * kConfig.rows_per_warp();
  }

  // Of a thread's `row`-th row.
  static __device__ __forceinline__ RowPlace place(const Work& work, int row) {
    return place_of_row<kConfig.packed_heads>(first_row_of_warp(work) + lane() / 4 + 8 * row);
  }
};

}  // namespace tilewright::attention
