// dK and dV of one key tile. A block owns tile_n keys of one (batch, key head): K and V lie in
// shared memory, dK and dV in registers. It walks the query tiles that see these keys, for every
// query head of the group in turn, so the sums over heads have a fixed order. Per step:
//   Sᵀ = K·Qᵀ, dPᵀ = V·dOᵀ, then P and dS (gradients.cuh), dV += Pᵀ·dO, dK += dSᵀ·Q
// The products are transposed so that a warp's rows are keys: Pᵀ and dSᵀ become A operands in
// registers. Where dK and dV of 16 keys do not fit a warp's registers, `column_warps` warps share
// the keys: each computes P and dS for its part of the queries, passes them on through shared
// memory, and sums its part of the columns.
//
// Shared memory: K | V | stages x { Q | dO | statistics } | P | dS.
#pragma once

#include "attention/block_order.cuh"
#include "attention/config/backward_sm80.h"
#include "attention/gradients.cuh"
#include "attention/masks.cuh"
#include "attention/params/backward.h"
#include "attention/pipeline.cuh"
#include "attention/products.cuh"
#include "attention/row_store.cuh"
#include "attention/tile.cuh"
#include "attention/types.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"

namespace tilewright::attention {

template <BackwardSm80Config kConfig>
struct BackwardDkdv {
  static constexpr int column_warps() { return kConfig.dkdv_column_warps; }
  static constexpr int row_fragments() { return kConfig.dkdv_rows_per_warp() / 16; }
  // Fragments of 8: queries that a warp computes P and dS for, columns that it sums.
  static constexpr int query_fragments() { return kConfig.dkdv_tile_m / 8 / column_warps(); }
  static constexpr int dk_fragments() { return kConfig.dkdv_columns_qk() / 8 / column_warps(); }
  static constexpr int dv_fragments() { return kConfig.dkdv_columns_v() / 8 / column_warps(); }

  static_assert(column_warps() >= 1 && kConfig.dkdv_warps % column_warps() == 0,
                "dkdv_column_warps must divide dkdv_warps");
  static_assert(kConfig.dkdv_rows_per_warp() * kConfig.dkdv_warps ==
                        kConfig.dkdv_tile_n * column_warps() &&
                    (row_fragments() == 1 || row_fragments() == 2) &&
                    kConfig.dkdv_rows_per_warp() % 16 == 0,
                "dkdv_tile_n must be 16 or 32 keys per warp that does not share them");
  static_assert(kConfig.dkdv_tile_m > 0 && kConfig.dkdv_tile_m % (16 * column_warps()) == 0,
                "dkdv_tile_m must be a multiple of 16 for each column warp");
  static_assert(kConfig.dkdv_stages >= 1, "at least one stage");

  using KTile = SharedTile<kConfig.dkdv_tile_n, kConfig.dkdv_columns_qk()>;
  using VTile = SharedTile<kConfig.dkdv_tile_n, kConfig.dkdv_columns_v()>;
  using QTile = SharedTile<kConfig.dkdv_tile_m, kConfig.dkdv_columns_qk()>;
  using DoutTile = SharedTile<kConfig.dkdv_tile_m, kConfig.dkdv_columns_v()>;
  using WeightTile = SharedTile<kConfig.dkdv_tile_n, kConfig.dkdv_tile_m>;
  template <class Tile, int kColumns>
  using Loader = TileLoader<Tile, kColumns, kConfig.dkdv_threads(), kConfig.strided>;
  // The queries that see a key, as the mask with rows and columns exchanged.
  using Mask =
      typename Select<kConfig.row_range, RowRange<kConfig.dkdv_tile_n, kConfig.dkdv_tile_m>,
                      AllVisible<kConfig.dkdv_tile_n, kConfig.dkdv_tile_m>>::Type;

  static constexpr int statistics_bytes() { return kConfig.dkdv_tile_m * 8; }
  static_assert(KTile::bytes() + VTile::bytes() == kConfig.dkdv_keys_bytes() &&
                    QTile::bytes() + DoutTile::bytes() + statistics_bytes() ==
                        kConfig.dkdv_stage_bytes() &&
                    sizeof(RowStatistics) == 8,
                "the config's sizes are those the host allocates");

  using Scores = float[row_fragments()][query_fragments()][4];
  using KeyGradient = float[row_fragments()][dk_fragments()][4];
  using ValueGradient = float[row_fragments()][dv_fragments()][4];

  struct Work {
    int key_tile;
    int batch;
    int kv_head;
  };
  static __device__ __forceinline__ Work work_of_block(const BackwardParams& params) {
    const TileOfPair place = tile_of_block(params.key_blocks);
    const int batch = place.pair / params.num_heads_kv;
    return {place.tile, batch, place.pair - batch * params.num_heads_kv};
  }

  // Query tile by query tile, then head by head of the group.
  struct Step {
    int tile;
    int head;
    int first_tile;
    int end_tile;
    int end_head;

    __device__ __forceinline__ bool valid() const { return head < end_head; }
    __device__ __forceinline__ void next() {
      if (++tile == end_tile) {
        tile = first_tile;
        ++head;
      }
    }
  };

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ __forceinline__ int column_warp() { return warp() % column_warps(); }
  static __device__ __forceinline__ int first_key_of_warp() {
    return warp() / column_warps() * kConfig.dkdv_rows_per_warp();
  }
  static __device__ __forceinline__ int first_query_of_warp() {
    return column_warp() * 8 * query_fragments();
  }

  // Addresses of a stage's parts, and of what lies beyond the stages.
  static __device__ __forceinline__ unsigned q_tile(unsigned shared, int slot) {
    return shared +
           static_cast<unsigned>(kConfig.dkdv_keys_bytes() + slot * kConfig.dkdv_stage_bytes());
  }
  static __device__ __forceinline__ unsigned dout_tile(unsigned shared, int slot) {
    return q_tile(shared, slot) + QTile::bytes();
  }
  static __device__ __forceinline__ unsigned statistics(unsigned shared, int slot) {
    return dout_tile(shared, slot) + DoutTile::bytes();
  }
  static __device__ __forceinline__ unsigned weights_tile(unsigned shared) {
    return shared + kConfig.dkdv_exchange_offset();
  }

  static __device__ __forceinline__ void load_keys(const BackwardParams& params, const Work& work,
                                                   unsigned shared) {
    const int thread = static_cast<int>(threadIdx.x);
    const int first_key = work.key_tile * kConfig.dkdv_tile_n;
    const Loader<KTile, kConfig.head_dim_qk> k(params.k, params.k_strides, work.batch, work.kv_head,
                                               thread);
    const Loader<VTile, kConfig.head_dim_v> v(params.v, params.v_strides, work.batch, work.kv_head,
                                              thread);
    k.template load<true>(shared, first_key, params.seqlen_k);
    v.template load<true>(shared + KTile::bytes(), first_key, params.seqlen_k);
  }

  static __device__ __forceinline__ void load_step(const BackwardParams& params, int batch,
                                                   const Step& step, unsigned shared, int slot) {
    const int thread = static_cast<int>(threadIdx.x);
    const int first_query = step.tile * kConfig.dkdv_tile_m;
    const Loader<QTile, kConfig.head_dim_qk> q(params.q, params.q_strides, batch, step.head,
                                               thread);
    const Loader<DoutTile, kConfig.head_dim_v> dout(params.dout, params.dout_strides, batch,
                                                    step.head, thread);
    q.template load<true>(q_tile(shared, slot), first_query, params.seqlen_q);
    dout.template load<true>(dout_tile(shared, slot), first_query, params.seqlen_q);
    if (thread < statistics_bytes() / kChunkBytes) {
      const RowStatistics* from = params.statistics +
                                  (static_cast<long long>(batch) * params.num_heads_q + step.head) *
                                      params.statistics_rows +
                                  first_query;
      ptx::cp_async_16(statistics(shared, slot) + static_cast<unsigned>(thread * kChunkBytes),
                       reinterpret_cast<const char*>(from) + thread * kChunkBytes);
    }
  }

  // out = A·Bᵀ with A rows of this block's keys and B rows of the step's queries.
  template <int kSteps, class ATile, class BTile>
  static __device__ __forceinline__ void multiply_with_queries(Scores& out, unsigned a_tile,
                                                               unsigned b_tile) {
    const FragmentAddress<ATile> a_from = by_depth_address<ATile>(lane(), first_key_of_warp(), 0);
    const FragmentAddress<BTile> b_from = by_column_address<BTile>(lane(), first_query_of_warp());
#pragma unroll
    for (int m = 0; m < row_fragments(); ++m) {
#pragma unroll
      for (int n = 0; n < query_fragments(); ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out[m][n][i] = 0.0f;
      }
    }
    multiply_transposed<kConfig.dtype, kSteps>(
        out,
        [&](int m, int step, unsigned(&a)[4]) {
          ptx::ldmatrix_x4(a, a_from.at(a_tile, 16 * m, step));
        },
        b_from, b_tile);
  }

  // {lse, D} of the queries of one fragment's columns.
  static __device__ __forceinline__ FragmentStatistics statistics_of_columns(unsigned address) {
    const Chunk two_rows = *static_cast<const Chunk*>(__cvta_shared_to_generic(address));
    const RowStatistics first = {__builtin_bit_cast(float, two_rows.words[0]),
                                 __builtin_bit_cast(float, two_rows.words[1])};
    const RowStatistics second = {__builtin_bit_cast(float, two_rows.words[2]),
                                  __builtin_bit_cast(float, two_rows.words[3])};
    return {{first, second, first, second}};
  }

  // Writes this warp's part of P or dS, as A operands for every warp that shares its keys.
  static __device__ __forceinline__ void store_weights(const Scores& weights, unsigned tile) {
    const int first_chunk = first_query_of_warp() / 8;
#pragma unroll
    for (int m = 0; m < row_fragments(); ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_key_of_warp() + 16 * m + 8 * half + lane() / 4;
#pragma unroll
        for (int n = 0; n < query_fragments(); ++n) {
          const unsigned offset =
              static_cast<unsigned>(WeightTile::offset(row, first_chunk + n) + lane() % 4 * 4);
          *static_cast<unsigned*>(__cvta_shared_to_generic(tile + offset)) =
              pack<kConfig.dtype>(weights[m][n][2 * half], weights[m][n][2 * half + 1]);
        }
      }
    }
  }

  // gradient += weightsᵀ · B, with `weights` in this warp's registers or, where warps share keys,
  // in `weights_tile`.
  template <class BTile, int kColumns>
  static __device__ __forceinline__ void accumulate(float (&gradient)[row_fragments()][kColumns][4],
                                                    const Scores& weights, unsigned weights_tile,
                                                    unsigned b_tile) {
    const FragmentAddress<BTile> b_from = by_depth_address<BTile>(lane(), 0, 2 * column_warp());
    const FragmentAddress<WeightTile> weights_from =
        by_depth_address<WeightTile>(lane(), first_key_of_warp(), 0);
    multiply<kConfig.dtype, kConfig.dkdv_tile_m / 16, column_warps()>(
        gradient,
        [&](int m, int step, unsigned(&a)[4]) {
          if constexpr (column_warps() == 1) {
            pack_operand<kConfig.dtype>(weights[m], step, a);
          } else {
            ptx::ldmatrix_x4(a, weights_from.at(weights_tile, 16 * m, step));
          }
        },
        b_from, b_tile);
  }

  static __device__ __forceinline__ void compute_step(const BackwardParams& params,
                                                      const Work& work, const Mask& mask,
                                                      bool clean, int query_tile, unsigned shared,
                                                      int slot, KeyGradient& dk,
                                                      ValueGradient& dv) {
    Scores scores, products;
    multiply_with_queries<kConfig.depth_qk() / 16, KTile, QTile>(scores, shared,
                                                                 q_tile(shared, slot));
    multiply_with_queries<kConfig.depth_v() / 16, VTile, DoutTile>(
        products, shared + KTile::bytes(), dout_tile(shared, slot));
    const unsigned statistics_of_lane =
        statistics(shared, slot) +
        static_cast<unsigned>((first_query_of_warp() + lane() % 4 * 2) * 8);
    compute_exponents<kConfig.softcap>(
        scores, products, params.scale_log2, params.tanh_scale,
        [&](int, int n) { return statistics_of_columns(statistics_of_lane + 64u * n); });
    if (!clean) {
      apply_mask(scores, mask, work.key_tile * kConfig.dkdv_tile_n + first_key_of_warp(),
                 query_tile * kConfig.dkdv_tile_m + first_query_of_warp());
    }
    compute_gradients(scores, products);
    const unsigned p_tile = weights_tile(shared);
    const unsigned ds_tile = p_tile + WeightTile::bytes();
    if constexpr (column_warps() > 1) {
      store_weights(scores, p_tile);
      store_weights(products, ds_tile);
      __syncthreads();
    }
    accumulate<DoutTile>(dv, scores, p_tile, dout_tile(shared, slot));
    accumulate<QTile>(dk, products, ds_tile, q_tile(shared, slot));
  }

  template <int kColumns>
  static __device__ __forceinline__ void store_gradient(
      const BackwardParams& params, const Work& work,
      const float (&gradient)[row_fragments()][kColumns][4], float factor, void* tensor,
      const TensorStrides& strides, int head_dim) {
    const long long dim_bytes = kConfig.strided ? strides.dim * 2 : 2;
    char* const head =
        static_cast<char*>(tensor) + (work.batch * strides.batch + work.kv_head * strides.head) * 2;
#pragma unroll
    for (int row = 0; row < 2 * row_fragments(); ++row) {
      const int key =
          work.key_tile * kConfig.dkdv_tile_n + first_key_of_warp() + lane() / 4 + 8 * row;
      store_row<kConfig.dtype, kConfig.strided>(
          gradient[row / 2], row % 2, factor, key < params.seqlen_k, head + key * strides.row * 2,
          dim_bytes, head_dim / kChunkElements, [](int fragment) {
            return 2 * (fragment / 2 * column_warps() + column_warp()) + fragment % 2;
          });
    }
  }

  static __device__ __forceinline__ void run(const BackwardParams& params, unsigned shared) {
    const Work work = work_of_block(params);
    const Mask mask(
        MaskExtent{-params.row_right, -params.row_left, params.seqlen_k, params.seqlen_q});
    const KeyTiles query_tiles = mask.key_tiles(work.key_tile);
    KeyGradient dk = {};
    ValueGradient dv = {};
    if (query_tiles.begin < query_tiles.end) {
      load_keys(params, work, shared);
      const int first_head = work.kv_head * params.group_size;
      const Step first = {query_tiles.begin, first_head, query_tiles.begin, query_tiles.end,
                          first_head + params.group_size};
      run_pipeline<kConfig.dkdv_stages>(
          first,
          [&](const Step& step, int slot) { load_step(params, work.batch, step, shared, slot); },
          [&](const Step& step, int slot) {
            compute_step(params, work, mask, query_tiles.clean(step.tile), step.tile, shared, slot,
                         dk, dv);
          });
    }
    store_gradient(params, work, dk, params.scale, params.dk, params.dk_strides,
                   kConfig.head_dim_qk);
    store_gradient(params, work, dv, 1.0f, params.dv, params.dv_strides, kConfig.head_dim_v);
  }
};

}  // namespace tilewright::attention
