// Standard attention, for sm_80 and up: the scores and the weights go through global memory, in
// three kernels. The baseline of every comparison (FlashAttention, Dao et al. 2022, Algorithm 0):
// it computes every pair, masked or not, and needs memory for all of them.
//
//   scores   one tile_m x tile_n tile of t = Q·Kᵀ (or its tanh) per block; masked pairs are -inf
//   weights  one row per warp: P = e^(t − max) in the type of Q, its sum, and the lse
//   output   tile_m rows of O = P·V per block, over all key tiles, divided by the sum
//
// P is rounded before it is divided, so that a row's largest weight is exactly 1: half the error of
// rounding the quotient.
#pragma once

#include "attention/config/standard.h"
#include "attention/masks.cuh"
#include "attention/params/standard.h"
#include "attention/products.cuh"
#include "attention/row_store.cuh"
#include "attention/softmax.cuh"
#include "attention/tile.cuh"
#include "attention/types.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/warp.cuh"

namespace tilewright::attention {

template <StandardConfig kConfig>
struct Standard {
  static_assert(kConfig.dtype == Dtype::kFloat16 || kConfig.dtype == Dtype::kBFloat16,
                "standard takes fp16 and bf16");
  static_assert(kConfig.head_dim_qk % 8 == 0 && kConfig.head_dim_v % 8 == 0,
                "head dims are multiples of 8");
  static_assert(kConfig.tile_m % 16 == 0 && kConfig.tile_n % 16 == 0, "tiles are of 16 x 16");

  using QTile = SharedTile<kConfig.tile_m, kConfig.head_dim_qk_padded()>;
  using KTile = SharedTile<kConfig.tile_n, kConfig.head_dim_qk_padded()>;
  using PTile = SharedTile<kConfig.tile_m, kConfig.tile_n>;
  using VTile = SharedTile<kConfig.tile_n, kConfig.head_dim_v>;
  template <class Tile, int kColumns, bool kStrided>
  using Loader = TileLoader<Tile, kColumns, kConfig.num_threads(), kStrided>;

  static constexpr int key_fragments() { return kConfig.tile_n / 8; }
  static constexpr int out_fragments() { return kConfig.head_dim_v / 8; }

  struct Head {
    int batch, head, kv_head;
  };
  static __device__ __forceinline__ Head head_of(const StandardParams& params, int batch_head) {
    const int batch = batch_head / params.num_heads_q;
    const int head = batch_head - batch * params.num_heads_q;
    return {batch, head, head / params.group_size};
  }
  // The first row of a (batch, head) among all rows of scores.
  static __device__ __forceinline__ long long first_row(const StandardParams& params,
                                                        int batch_head) {
    return static_cast<long long>(batch_head) * params.seqlen_q;
  }
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }

  // Fetches fragments of this warp's 16 rows of a tile, as A operands.
  template <class Tile>
  static __device__ __forceinline__ auto fragments_of(unsigned tile) {
    const FragmentAddress<Tile> from = by_depth_address<Tile>(lane(), warp() * 16, 0);
    return [=](int, int step, unsigned(&a)[4]) { ptx::ldmatrix_x4(a, from.at(tile, 0, step)); };
  }

  template <class Mask>
  static __device__ __forceinline__ void store_scores(const StandardParams& params,
                                                      const float (&scores)[key_fragments()][4],
                                                      int batch_head, int query_tile,
                                                      int key_tile) {
    const Mask mask(params);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = query_tile * kConfig.tile_m + warp() * 16 + lane() / 4 + 8 * half;
      if (query >= params.seqlen_q) continue;
      const typename Mask::Row keys = mask.row(query);
      float* const row = params.scores + (first_row(params, batch_head) + query) * params.pitch;
#pragma unroll
      for (int n = 0; n < key_fragments(); ++n) {
        const int key = key_tile * kConfig.tile_n + 8 * n + lane() % 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float t = scores[n][2 * half + i];
          if constexpr (kConfig.softcap) t = tanh_accurate(t * params.tanh_scale);
          row[key + i] = keys.visible(key + i) ? t : -infinity();
        }
      }
    }
  }

  static __device__ __forceinline__ void scores(const StandardParams& params, unsigned shared) {
    const int block = static_cast<int>(ptx::block_index());
    const int key_tile = block % params.num_key_tiles;
    const int query_tile = block / params.num_key_tiles % params.num_query_tiles;
    const int batch_head = block / params.num_key_tiles / params.num_query_tiles;
    const Head at = head_of(params, batch_head);
    const int thread = static_cast<int>(threadIdx.x);
    const unsigned k_tile = shared + QTile::bytes();
    using QLoader = Loader<QTile, kConfig.head_dim_qk, kConfig.strided>;
    using KLoader = Loader<KTile, kConfig.head_dim_qk, kConfig.strided>;
    QLoader(params.q, params.q_strides, at.batch, at.head, thread)
        .template load<true>(shared, query_tile * kConfig.tile_m, params.seqlen_q);
    KLoader(params.k, params.k_strides, at.batch, at.kv_head, thread)
        .template load<true>(k_tile, key_tile * kConfig.tile_n, params.seqlen_k);
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
    __syncthreads();
    float accumulators[1][key_fragments()][4] = {};
    multiply_transposed<kConfig.dtype, kConfig.head_dim_qk_padded() / 16>(
        accumulators, fragments_of<QTile>(shared), by_column_address<KTile>(lane(), 0), k_tile);
    if constexpr (kConfig.row_range) {
      store_scores<RowRange<kConfig.tile_m, kConfig.tile_n>>(params, accumulators[0], batch_head,
                                                             query_tile, key_tile);
    } else {
      store_scores<AllVisible<kConfig.tile_m, kConfig.tile_n>>(params, accumulators[0], batch_head,
                                                               query_tile, key_tile);
    }
  }

  template <class Combine>
  static __device__ __forceinline__ float over_warp(float value, const Combine& combine) {
    value = combine(value, ptx::shuffle_xor<16>(value));
    value = combine(value, ptx::shuffle_xor<8>(value));
    value = combine(value, ptx::shuffle_xor<4>(value));
    value = combine(value, ptx::shuffle_xor<2>(value));
    return combine(value, ptx::shuffle_xor<1>(value));
  }

  // Two neighbouring keys per lane and step, as the weights are written in pairs.
  static __device__ __forceinline__ void weights(const StandardParams& params) {
    const long long row = static_cast<long long>(ptx::block_index()) * kConfig.num_warps() + warp();
    if (row >= params.num_rows) return;
    const float* const scores_of_row = params.scores + row * params.pitch;
    unsigned* const weights_of_row =
        reinterpret_cast<unsigned*>(params.weights) + row * (params.pitch / 2);
    const int pairs = static_cast<int>(params.pitch / 2);
    float max = -infinity();
    for (int pair = lane(); pair < pairs; pair += 32) {
      max = fmaxf(max, fmaxf(scores_of_row[2 * pair], scores_of_row[2 * pair + 1]));
    }
    max = over_warp(max, [](float a, float b) { return fmaxf(a, b); }) * params.scale_log2;
    // A row without a key has maximum −inf, which must not meet another −inf.
    const float offset = max == -infinity() ? 0.0f : max;
    const auto weight = [&](float t) { return ptx::exp2_approx(t * params.scale_log2 - offset); };
    float sum = 0.0f;
    for (int pair = lane(); pair < pairs; pair += 32) {
      sum += weight(scores_of_row[2 * pair]) + weight(scores_of_row[2 * pair + 1]);
    }
    sum = over_warp(sum, [](float a, float b) { return a + b; });
    for (int pair = lane(); pair < pairs; pair += 32) {
      weights_of_row[pair] =
          pack<kConfig.dtype>(weight(scores_of_row[2 * pair]), weight(scores_of_row[2 * pair + 1]));
    }
    if (lane() == 0) {
      params.inverse_sums[row] = sum == 0.0f ? 0.0f : ptx::reciprocal_approx(sum);
    }
    if (params.lse != nullptr && lane() == 0) {
      params.lse[row] = (max + ptx::log2_approx(sum)) * ln_2();
    }
  }

  static __device__ __forceinline__ void store_output(const StandardParams& params, const Head& at,
                                                      int query_tile, const float* inverse_sums,
                                                      const float (&out)[out_fragments()][4]) {
    const TensorStrides& strides = params.out_strides;
    const long long dim_bytes = kConfig.strided ? strides.dim * 2 : 2;
    char* const out_of_lane = static_cast<char*>(params.out) +
                              (at.batch * strides.batch + at.head * strides.head) * 2 +
                              lane() % 4 * kChunkElements * dim_bytes;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = query_tile * kConfig.tile_m + warp() * 16 + lane() / 4 + 8 * half;
      const float factor = query < params.seqlen_q ? inverse_sums[query] : 0.0f;
#pragma unroll
      for (int n = 0; n < out_fragments(); n += 4) {
        unsigned words[4] = {};
#pragma unroll
        for (int i = 0; i < 4 && n + i < out_fragments(); ++i) {
          words[i] =
              pack<kConfig.dtype>(out[n + i][2 * half] * factor, out[n + i][2 * half + 1] * factor);
        }
        const Chunk chunk = gather_quad(words);
        if (query < params.seqlen_q && n + lane() % 4 < out_fragments()) {
          store_chunk<kConfig.strided>(
              out_of_lane + query * strides.row * 2 + n * kChunkElements * dim_bytes, chunk,
              dim_bytes);
        }
      }
    }
  }

  static __device__ __forceinline__ void output(const StandardParams& params, unsigned shared) {
    const int block = static_cast<int>(ptx::block_index());
    const int query_tile = block % params.num_query_tiles;
    const int batch_head = block / params.num_query_tiles;
    const Head at = head_of(params, batch_head);
    const int thread = static_cast<int>(threadIdx.x);
    const unsigned v_tile = shared + PTile::bytes();
    using VLoader = Loader<VTile, kConfig.head_dim_v, kConfig.strided>;
    const VLoader v(params.v, params.v_strides, at.batch, at.kv_head, thread);
    const TensorStrides weight_strides = {0, 0, params.pitch, 1};
    const char* const weights_of_head =
        static_cast<const char*>(params.weights) + first_row(params, batch_head) * params.pitch * 2;
    float out[1][out_fragments()][4] = {};
    for (int tile = 0; tile < params.num_key_tiles; ++tile) {
      __syncthreads();
      Loader<PTile, kConfig.tile_n, false>(weights_of_head + tile * PTile::row_bytes(),
                                           weight_strides, 0, 0, thread)
          .template load<true>(shared, query_tile * kConfig.tile_m, params.seqlen_q);
      v.template load<true>(v_tile, tile * kConfig.tile_n, params.seqlen_k);
      ptx::cp_async_commit();
      ptx::cp_async_wait<0>();
      __syncthreads();
      multiply<kConfig.dtype, kConfig.tile_n / 16, 1>(
          out, fragments_of<PTile>(shared), by_depth_address<VTile>(lane(), 0, 0), v_tile);
    }
    store_output(params, at, query_tile, params.inverse_sums + first_row(params, batch_head),
                 out[0]);
  }
};

template <StandardConfig kConfig>
__device__ __forceinline__ void standard_scores_cta(const StandardParams& params) {
  extern __shared__ SharedBytes shared[];
  Standard<kConfig>::scores(params, static_cast<unsigned>(__cvta_generic_to_shared(shared)));
}

template <StandardConfig kConfig>
__device__ __forceinline__ void standard_weights_cta(const StandardParams& params) {
  Standard<kConfig>::weights(params);
}

template <StandardConfig kConfig>
__device__ __forceinline__ void standard_output_cta(const StandardParams& params) {
  extern __shared__ SharedBytes shared[];
  Standard<kConfig>::output(params, static_cast<unsigned>(__cvta_generic_to_shared(shared)));
}

}  // namespace tilewright::attention
