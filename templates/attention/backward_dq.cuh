// dQ of one query tile. A block owns tile_m query rows of one (batch, head): Q and dO lie in shared
// memory, dQ and the rows' statistics in registers. It walks the key tiles that its rows see; per
// step: S = Q·Kᵀ, dP = dO·Vᵀ, then dS (gradients.cuh), dQ += dS·K with dS converted in registers.
//
// Shared memory: Q | dO | stages x { K | V }.
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
#include "ptx/ldmatrix.cuh"

namespace tilewright::attention {

template <BackwardSm80Config kConfig>
struct BackwardDq {
  static constexpr int row_fragments() { return kConfig.dq_rows_per_warp() / 16; }
  static constexpr int key_fragments() { return kConfig.dq_tile_n / 8; }
  static constexpr int dq_fragments() { return kConfig.depth_qk() / 8; }

  static_assert(kConfig.dq_rows_per_warp() * kConfig.dq_warps == kConfig.dq_tile_m &&
                    (row_fragments() == 1 || row_fragments() == 2) &&
                    kConfig.dq_rows_per_warp() % 16 == 0,
                "dq_tile_m must be 16 or 32 rows per warp");
  static_assert(kConfig.dq_tile_n > 0 && kConfig.dq_tile_n % 16 == 0,
                "dq_tile_n must be a multiple of 16, the inner size of dS·K's MMA");
  static_assert(kConfig.dq_stages >= 1, "at least one stage");

  using QTile = SharedTile<kConfig.dq_tile_m, kConfig.depth_qk()>;
  using DoutTile = SharedTile<kConfig.dq_tile_m, kConfig.depth_v()>;
  using KTile = SharedTile<kConfig.dq_tile_n, kConfig.depth_qk()>;
  using VTile = SharedTile<kConfig.dq_tile_n, kConfig.depth_v()>;
  template <class Tile, int kColumns>
  using Loader = TileLoader<Tile, kColumns, kConfig.dq_threads(), kConfig.strided>;
  using Mask = typename Select<kConfig.row_range, RowRange<kConfig.dq_tile_m, kConfig.dq_tile_n>,
                               AllVisible<kConfig.dq_tile_m, kConfig.dq_tile_n>>::Type;

  static_assert(QTile::bytes() + DoutTile::bytes() == kConfig.dq_queries_bytes() &&
                    KTile::bytes() + VTile::bytes() == kConfig.dq_stage_bytes(),
                "the config's sizes are those the host allocates");

  using Scores = float[row_fragments()][key_fragments()][4];
  using QueryGradient = float[row_fragments()][dq_fragments()][4];

  struct Work {
    int query_tile;
    int batch;
    int head;
    int kv_head;
  };
  // Of the query tiles the last come first: the longest under a causal mask.
  static __device__ __forceinline__ Work work_of_block(const BackwardParams& params) {
    const TileOfPair place = tile_of_block(params.query_blocks);
    const int batch = place.pair / params.num_heads_q;
    const int head = place.pair - batch * params.num_heads_q;
    return {params.query_blocks.num_tiles - 1 - place.tile, batch, head, head / params.group_size};
  }

  struct Step {
    int tile;
    int end;
    __device__ __forceinline__ bool valid() const { return tile < end; }
    __device__ __forceinline__ void next() { ++tile; }
  };

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int first_row_of_warp() {
    return static_cast<int>(threadIdx.x) / 32 * kConfig.dq_rows_per_warp();
  }
  static __device__ __forceinline__ int first_query_of_warp(const Work& work) {
    return work.query_tile * kConfig.dq_tile_m + first_row_of_warp();
  }

  static __device__ __forceinline__ unsigned k_tile(unsigned shared, int slot) {
    return shared +
           static_cast<unsigned>(kConfig.dq_queries_bytes() + slot * kConfig.dq_stage_bytes());
  }

  static __device__ __forceinline__ void load_queries(const BackwardParams& params,
                                                      const Work& work, unsigned shared) {
    const int thread = static_cast<int>(threadIdx.x);
    const int first_query = work.query_tile * kConfig.dq_tile_m;
    const Loader<QTile, kConfig.head_dim_qk> q(params.q, params.q_strides, work.batch, work.head,
                                               thread);
    const Loader<DoutTile, kConfig.head_dim_v> dout(params.dout, params.dout_strides, work.batch,
                                                    work.head, thread);
    q.template load<true>(shared, first_query, params.seqlen_q);
    dout.template load<true>(shared + QTile::bytes(), first_query, params.seqlen_q);
  }

  static __device__ __forceinline__ void load_step(const BackwardParams& params, const Work& work,
                                                   int key_tile, unsigned shared, int slot) {
    const int thread = static_cast<int>(threadIdx.x);
    const int first_key = key_tile * kConfig.dq_tile_n;
    const Loader<KTile, kConfig.head_dim_qk> k(params.k, params.k_strides, work.batch, work.kv_head,
                                               thread);
    const Loader<VTile, kConfig.head_dim_v> v(params.v, params.v_strides, work.batch, work.kv_head,
                                              thread);
    k.template load<true>(k_tile(shared, slot), first_key, params.seqlen_k);
    v.template load<true>(k_tile(shared, slot) + KTile::bytes(), first_key, params.seqlen_k);
  }

  using Statistics = RowStatistics[2 * row_fragments()];

  static __device__ __forceinline__ void load_statistics(const BackwardParams& params,
                                                         const Work& work, Statistics& rows) {
    const long long pair = static_cast<long long>(work.batch) * params.num_heads_q + work.head;
#pragma unroll
    for (int row = 0; row < 2 * row_fragments(); ++row) {
      const int query = first_query_of_warp(work) + lane() / 4 + 8 * row;
      rows[row] = {0.0f, 0.0f};
      if (query < params.seqlen_q) {
        rows[row] = params.statistics[pair * params.statistics_rows + query];
      }
    }
  }

  // out = A·Bᵀ with A rows of this block's queries and B rows of the step's keys.
  template <int kSteps, class ATile, class BTile>
  static __device__ __forceinline__ void multiply_with_keys(Scores& out, unsigned a_tile,
                                                            unsigned b_tile) {
    const FragmentAddress<ATile> a_from = by_depth_address<ATile>(lane(), first_row_of_warp(), 0);
#pragma unroll
    for (int m = 0; m < row_fragments(); ++m) {
#pragma unroll
      for (int n = 0; n < key_fragments(); ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out[m][n][i] = 0.0f;
      }
    }
    multiply_transposed<kConfig.dtype, kSteps>(
        out,
        [&](int m, int step, unsigned(&a)[4]) {
          ptx::ldmatrix_x4(a, a_from.at(a_tile, 16 * m, step));
        },
        by_column_address<BTile>(lane(), 0), b_tile);
  }

  static __device__ __forceinline__ void compute_step(const BackwardParams& params,
                                                      const Work& work, const Mask& mask,
                                                      bool clean, int key_tile, unsigned shared,
                                                      int slot, const Statistics& rows,
                                                      QueryGradient& dq) {
    Scores scores, products;
    const unsigned keys = k_tile(shared, slot);
    multiply_with_keys<kConfig.depth_qk() / 16, QTile, KTile>(scores, shared, keys);
    multiply_with_keys<kConfig.depth_v() / 16, DoutTile, VTile>(products, shared + QTile::bytes(),
                                                                keys + KTile::bytes());
    compute_exponents<kConfig.softcap>(
        scores, products, params.scale_log2, params.tanh_scale,
        [&](int m, int) -> FragmentStatistics {
          return {{rows[2 * m], rows[2 * m], rows[2 * m + 1], rows[2 * m + 1]}};
        });
    if (!clean) {
      apply_mask(scores, mask, first_query_of_warp(work), key_tile * kConfig.dq_tile_n);
    }
    compute_gradients(scores, products);
    multiply<kConfig.dtype, kConfig.dq_tile_n / 16, 1>(
        dq,
        [&](int m, int step, unsigned(&a)[4]) {
          pack_operand<kConfig.dtype>(products[m], step, a);
        },
        by_depth_address<KTile>(lane(), 0, 0), keys);
  }

  static __device__ __forceinline__ void store_gradient(const BackwardParams& params,
                                                        const QueryGradient& dq) {
    const Work work = work_of_block(params);
    const TensorStrides& strides = params.dq_strides;
    const long long dim_bytes = kConfig.strided ? strides.dim * 2 : 2;
    char* const head =
        static_cast<char*>(params.dq) + (work.batch * strides.batch + work.head * strides.head) * 2;
#pragma unroll
    for (int row = 0; row < 2 * row_fragments(); ++row) {
      const int query = first_query_of_warp(work) + lane() / 4 + 8 * row;
      store_row<kConfig.dtype, kConfig.strided>(
          dq[row / 2], row % 2, params.scale, query < params.seqlen_q,
          head + query * strides.row * 2, dim_bytes, kConfig.head_dim_qk / kChunkElements,
          [](int fragment) { return fragment; });
    }
  }

  static __device__ __forceinline__ void run(const BackwardParams& params, unsigned shared) {
    const Work work = work_of_block(params);
    const Mask mask(params);
    const KeyTiles key_tiles = mask.key_tiles(work.query_tile);
    QueryGradient dq = {};
    if (key_tiles.begin < key_tiles.end) {
      load_queries(params, work, shared);
      Statistics rows;
      load_statistics(params, work, rows);
      run_pipeline<kConfig.dq_stages>(
          Step{key_tiles.begin, key_tiles.end},
          [&](const Step& step, int slot) { load_step(params, work, step.tile, shared, slot); },
          [&](const Step& step, int slot) {
            compute_step(params, work, mask, key_tiles.clean(step.tile), step.tile, shared, slot,
                         rows, dq);
          });
    }
    store_gradient(params, dq);
  }
};

}  // namespace tilewright::attention
