// Linear attention in chunks, for sm_80 and up (Katharopoulos et al. 2020; chunked as in Yang et
// al. 2024, section 3):
//
//   states  S and z of one chunk of keys per block: φ(K)ᵀ·V and Σ φ(k)
//   scan    their running sums, from the state that the caller gives: slot c is the state before
//           chunk c; the last one is the state afterwards
//   output  tile_m rows per block: φ(Q)·S of all chunks that every row sees, then pair by pair, and
//           masked, the keys from there to the last that some row sees
//
// Without a mask the output needs the last slot only. φ(Q)·φ(K)ᵀ and φ(K)ᵀ·V run on 16-bit MMAs
// with the features rounded to the type of the input; where one operand is a sum (the state, or a
// weight), it runs on TF32, since sums of features outgrow fp16.
//
// A TF32 fragment step takes its 8 inner indices in the order 0 2 4 6 1 3 5 7, in A as in B: so the
// pairs of a 16-bit fragment, or of an accumulator, are its registers as they stand.
#pragma once

#include "attention/config/linear.h"
#include "attention/feature.cuh"
#include "attention/params/linear.h"
#include "attention/row_store.cuh"
#include "attention/softmax.cuh"
#include "attention/tile.cuh"
#include "attention/types.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/warp.cuh"

namespace tilewright::attention {

template <LinearForwardConfig kConfig>
struct LinearForward {
  static_assert(kConfig.head_dim_qk % 8 == 0 && kConfig.head_dim_v % kConfig.tile_v == 0 &&
                    kConfig.tile_v % 8 == 0,
                "head dims are multiples of 8, and tile_v divides head_dim_v");
  static_assert(kConfig.chunk % kConfig.tile_n() == 0 && kConfig.chunk > 0,
                "a chunk is whole tiles of keys");

  using QTile = SharedTile<kConfig.tile_m(), kConfig.head_dim_qk_padded()>;
  using KTile = SharedTile<kConfig.tile_n(), kConfig.head_dim_qk_padded()>;
  using VTile = SharedTile<kConfig.tile_n(), kConfig.tile_v>;
  template <class Tile, int kColumns>
  using Loader = TileLoader<Tile, kColumns, kConfig.num_threads(), kConfig.strided>;
  using QLoader = Loader<QTile, kConfig.head_dim_qk>;
  using KLoader = Loader<KTile, kConfig.head_dim_qk>;
  using VLoader = Loader<VTile, kConfig.tile_v>;

  static constexpr int num_warps() { return kConfig.num_threads() / 32; }
  static constexpr int depth_fragments() { return kConfig.head_dim_qk_padded() / 16; }
  static constexpr int v_fragments() { return kConfig.tile_v / 8; }
  static constexpr int key_fragments() { return kConfig.tile_n() / 8; }
  static constexpr int v_tiles() { return kConfig.head_dim_v / kConfig.tile_v; }

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }

  // Slot `slot` of a (batch, key head).
  static __device__ __forceinline__ float* state_at(const LinearParams& params, int batch_head,
                                                    int slot) {
    const long long index = static_cast<long long>(batch_head) * (params.num_chunks + 1) + slot;
    return params.chunk_states + index * kConfig.state_elements();
  }

  static __device__ __forceinline__ VLoader v_loader(const LinearParams& params, int batch,
                                                     int kv_head, int v_tile) {
    const long long dim_bytes = kConfig.strided ? params.v_strides.dim * 2 : 2;
    const char* const first_column =
        static_cast<const char*>(params.v) + v_tile * kConfig.tile_v * dim_bytes;
    return VLoader(first_column, params.v_strides, batch, kv_head, thread());
  }

  // --- states ---

  // One row strip of 16 features per warp at a time.
  static constexpr int strips_per_warp() { return ceil_div(depth_fragments(), num_warps()); }

  struct ChunkState {
    float s[strips_per_warp()][v_fragments()][4];
    float z[strips_per_warp()][2];
  };

  // φ of a fragment of Kᵀ (rows are features, columns keys); keys from `keys_left` on are no keys,
  // and φ(0) is not 0.
  static __device__ __forceinline__ void key_features(unsigned (&a)[4], float (&z)[2],
                                                      int keys_left) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int key = lane() % 4 * 2 + r / 2 * 8;
      Pair phi = features_of<kConfig.dtype, kConfig.feature>(a[r], 1.0f);
      if (key >= keys_left) phi.low = 0.0f;
      if (key + 1 >= keys_left) phi.high = 0.0f;
      z[r % 2] += phi.low + phi.high;
      a[r] = pack<kConfig.dtype>(phi.low, phi.high);
    }
  }

  static __device__ __forceinline__ void add_keys(ChunkState& state, unsigned k_tile,
                                                  unsigned v_tile, int keys_left) {
    const FragmentAddress<KTile> k_from(lane() % 8 + lane() / 16 * 8, lane() / 8 % 2);
    const FragmentAddress<VTile> v_from(lane() % 16, lane() / 16);
#pragma unroll
    for (int step = 0; step < kConfig.tile_n() / 16; ++step) {
      unsigned b[v_fragments()][2];
#pragma unroll
      for (int n = 0; n + 1 < v_fragments(); n += 2) {
        unsigned two[4];
        ptx::ldmatrix_x4_trans(two, v_from.at(v_tile, 16 * step, n / 2));
        b[n][0] = two[0], b[n][1] = two[1], b[n + 1][0] = two[2], b[n + 1][1] = two[3];
      }
      if constexpr (v_fragments() % 2 == 1) {
        ptx::ldmatrix_x2_trans(b[v_fragments() - 1],
                               v_from.at(v_tile, 16 * step, v_fragments() / 2));
      }
#pragma unroll
      for (int i = 0; i < strips_per_warp(); ++i) {
        const int strip = warp() + num_warps() * i;
        if (strip >= depth_fragments()) break;
        unsigned a[4];
        ptx::ldmatrix_x4_trans(a, k_from.at(k_tile, 16 * step, strip));
        key_features(a, state.z[i], keys_left - 16 * step);
#pragma unroll
        for (int n = 0; n < v_fragments(); ++n) {
          mma_m16n8k16<kConfig.dtype>(state.s[i][n], a, b[n][0], b[n][1]);
        }
      }
    }
  }

  static __device__ __forceinline__ void store_state(const ChunkState& state, float* to,
                                                     int v_tile) {
#pragma unroll
    for (int i = 0; i < strips_per_warp(); ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = (warp() + num_warps() * i) * 16 + lane() / 4 + 8 * half;
        const float z = quad_sum(state.z[i][half]);
        if (row >= kConfig.head_dim_qk) continue;
        float* const columns =
            to + row * kConfig.head_dim_v + v_tile * kConfig.tile_v + lane() % 4 * 2;
#pragma unroll
        for (int n = 0; n < v_fragments(); ++n) {
          columns[8 * n] = state.s[i][n][2 * half];
          columns[8 * n + 1] = state.s[i][n][2 * half + 1];
        }
        if (v_tile == 0 && lane() % 4 == 0) {
          to[kConfig.head_dim_qk * kConfig.head_dim_v + row] = z;
        }
      }
    }
  }

  static __device__ __forceinline__ void states(const LinearParams& params, unsigned shared) {
    const int block = static_cast<int>(ptx::block_index());
    const int v_tile = block % v_tiles();
    const int chunk = block / v_tiles() % params.num_chunks;
    const int batch_head = block / v_tiles() / params.num_chunks;
    const int batch = batch_head / params.num_heads_kv;
    const int kv_head = batch_head - batch * params.num_heads_kv;
    const KLoader k(params.k, params.k_strides, batch, kv_head, thread());
    const VLoader v = v_loader(params, batch, kv_head, v_tile);
    ChunkState state = {};
    const int first = chunk * kConfig.chunk;
    const int end =
        params.seqlen_k - first < kConfig.chunk ? params.seqlen_k : first + kConfig.chunk;
    for (int key = first; key < end; key += kConfig.tile_n()) {
      __syncthreads();
      k.template load<true>(shared, key, params.seqlen_k);
      v.template load<true>(shared + KTile::bytes(), key, params.seqlen_k);
      ptx::cp_async_commit();
      ptx::cp_async_wait<0>();
      __syncthreads();
      add_keys(state, shared, shared + KTile::bytes(), params.seqlen_k - key);
    }
    store_state(state, state_at(params, batch_head, chunk + 1), v_tile);
  }

  // --- scan ---

  static __device__ __forceinline__ void scan(const LinearParams& params) {
    constexpr int kMatrix = kConfig.head_dim_qk * kConfig.head_dim_v;
    constexpr int kBlocks = ceil_div(kConfig.state_elements(), kConfig.num_threads());
    const int block = static_cast<int>(ptx::block_index());
    const int batch_head = block / kBlocks;
    const int element = block % kBlocks * kConfig.num_threads() + thread();
    if (element >= kConfig.state_elements()) return;
    const bool of_matrix = element < kMatrix;
    if (!of_matrix && !kConfig.normalized()) return;
    const long long index =
        of_matrix ? static_cast<long long>(batch_head) * kMatrix + element
                  : static_cast<long long>(batch_head) * kConfig.head_dim_qk + element - kMatrix;
    const float* const before = of_matrix ? params.state : params.normalizer;
    float sum = before != nullptr ? before[index] : 0.0f;
    float* slot = state_at(params, batch_head, 0) + element;
    *slot = sum;
    for (int chunk = 0; chunk < params.num_chunks; ++chunk) {
      slot += kConfig.state_elements();
      sum += *slot;
      *slot = sum;
    }
    float* const after = of_matrix ? params.state_out : params.normalizer_out;
    if (after != nullptr) after[index] = sum;
  }

  // --- output ---

  struct Accumulators {
    float out[v_fragments()][4];
    float normalizer[2];
  };

  // φ(scale · q) of the two rows of this thread, packed: one A fragment for each depth.
  static __device__ __forceinline__ void query_features(unsigned (&q)[depth_fragments()][4],
                                                        unsigned q_tile, float scale) {
    const FragmentAddress<QTile> from(warp() * 16 + lane() % 16, lane() / 16);
#pragma unroll
    for (int depth = 0; depth < depth_fragments(); ++depth) {
      ptx::ldmatrix_x4(q[depth], from.at(q_tile, 0, depth));
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const Pair phi = features_of<kConfig.dtype, kConfig.feature>(q[depth][r], scale);
        q[depth][r] = pack<kConfig.dtype>(phi.low, phi.high);
      }
    }
    // Columns from head_dim_qk to the next multiple of 16 are no features, and φ(0) is not 0.
    if constexpr (kConfig.head_dim_qk != kConfig.head_dim_qk_padded()) {
      q[depth_fragments() - 1][2] = q[depth_fragments() - 1][3] = 0;
    }
  }

  // rows x tile_v of the state, from row `first`, as fp32 in shared memory; missing rows are zero.
  static __device__ __forceinline__ void load_slice(const float* state, unsigned shared, int first,
                                                    int v_tile) {
    constexpr int kChunks = kConfig.tile_v / 4;
    for (int index = thread(); index < kConfig.slice() * kChunks; index += kConfig.num_threads()) {
      const int row = index / kChunks;
      const int column = index % kChunks * 4;
      ptx::cp_async_16_or_zero(
          shared + static_cast<unsigned>((row * kConfig.slice_pitch() + column) * 4),
          state + (first + row) * kConfig.head_dim_v + v_tile * kConfig.tile_v + column,
          first + row < kConfig.head_dim_qk);
    }
    ptx::cp_async_commit();
  }

  // O += φ(Q)·S and, with a normaliser, its φ(q)·z.
  static __device__ __forceinline__ void add_state(Accumulators& sums,
                                                   const unsigned (&q)[depth_fragments()][4],
                                                   const float* state, unsigned shared,
                                                   const float* slice, int v_tile) {
    const float* const z = state + kConfig.head_dim_qk * kConfig.head_dim_v;
#pragma unroll
    for (int depth = 0; depth < depth_fragments(); ++depth) {
      if (depth % (kConfig.slice() / 16) == 0) {
        __syncthreads();
        load_slice(state, shared, depth * 16, v_tile);
        ptx::cp_async_wait<0>();
        __syncthreads();
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = depth % (kConfig.slice() / 16) * 16 + 8 * half + lane() % 4 * 2;
        const Pair upper = unpack<kConfig.dtype>(q[depth][2 * half]);
        const Pair lower = unpack<kConfig.dtype>(q[depth][2 * half + 1]);
        const unsigned a[4] = {ptx::to_tf32(upper.low), ptx::to_tf32(lower.low),
                               ptx::to_tf32(upper.high), ptx::to_tf32(lower.high)};
        const float* const b = slice + row * kConfig.slice_pitch() + lane() / 4;
#pragma unroll
        for (int n = 0; n < v_fragments(); ++n) {
          ptx::mma_m16n8k8_tf32(sums.out[n], a, ptx::to_tf32(b[8 * n]),
                                ptx::to_tf32(b[8 * n + kConfig.slice_pitch()]));
        }
        const int feature = depth * 16 + 8 * half + lane() % 4 * 2;
        if constexpr (kConfig.normalized()) {
          if (feature < kConfig.head_dim_qk) {
            sums.normalizer[0] += upper.low * z[feature] + upper.high * z[feature + 1];
            sums.normalizer[1] += lower.low * z[feature] + lower.high * z[feature + 1];
          }
        }
      }
    }
  }

  // weights = φ(Q)·φ(K)ᵀ of a tile of keys.
  static __device__ __forceinline__ void compute_weights(float (&weights)[key_fragments()][4],
                                                         const unsigned (&q)[depth_fragments()][4],
                                                         unsigned k_tile) {
    const FragmentAddress<KTile> from(lane() % 8 + lane() / 16 * 8, lane() / 8 % 2);
#pragma unroll
    for (int depth = 0; depth < depth_fragments(); ++depth) {
#pragma unroll
      for (int n = 0; n < key_fragments(); n += 2) {
        unsigned b[4];
        ptx::ldmatrix_x4(b, from.at(k_tile, 8 * n, depth));
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const Pair phi = features_of<kConfig.dtype, kConfig.feature>(b[r], 1.0f);
          b[r] = pack<kConfig.dtype>(phi.low, phi.high);
        }
        mma_m16n8k16<kConfig.dtype>(weights[n], q[depth], b[0], b[1]);
        mma_m16n8k16<kConfig.dtype>(weights[n + 1], q[depth], b[2], b[3]);
      }
    }
  }

  // Keys [first, first + tile_n) pair by pair, row i up to key last_key[i].
  static __device__ __forceinline__ void add_pairs(Accumulators& sums,
                                                   const unsigned (&q)[depth_fragments()][4],
                                                   unsigned k_tile, unsigned v_tile, int first,
                                                   const int (&last_key)[2]) {
    float weights[key_fragments()][4] = {};
    compute_weights(weights, q, k_tile);
    const FragmentAddress<VTile> from(lane() % 16, lane() / 16);
#pragma unroll
    for (int n = 0; n < key_fragments(); ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = first + 8 * n + lane() % 4 * 2 + i % 2;
        if (key > last_key[i / 2]) weights[n][i] = 0.0f;
        sums.normalizer[i / 2] += weights[n][i];
      }
    }
#pragma unroll
    for (int step = 0; step < kConfig.tile_n() / 16; ++step) {
#pragma unroll
      for (int n = 0; n < v_fragments(); n += 2) {
        unsigned b[4] = {};
        if (n + 1 < v_fragments()) {
          ptx::ldmatrix_x4_trans(b, from.at(v_tile, 16 * step, n / 2));
        } else {
          unsigned one[2];
          ptx::ldmatrix_x2_trans(one, from.at(v_tile, 16 * step, n / 2));
          b[0] = one[0], b[1] = one[1];
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float(&w)[4] = weights[2 * step + half];
          const unsigned a[4] = {ptx::to_tf32(w[0]), ptx::to_tf32(w[2]), ptx::to_tf32(w[1]),
                                 ptx::to_tf32(w[3])};
          const Pair left = unpack<kConfig.dtype>(b[half]);
          ptx::mma_m16n8k8_tf32(sums.out[n], a, ptx::to_tf32(left.low), ptx::to_tf32(left.high));
          if (n + 1 < v_fragments()) {
            const Pair right = unpack<kConfig.dtype>(b[2 + half]);
            ptx::mma_m16n8k8_tf32(sums.out[n + 1], a, ptx::to_tf32(right.low),
                                  ptx::to_tf32(right.high));
          }
        }
      }
    }
  }

  static __device__ __forceinline__ void store_output(const LinearParams& params, int batch,
                                                      int head, int v_tile, int first_row,
                                                      const Accumulators& sums) {
    const TensorStrides& strides = params.out_strides;
    const long long dim_bytes = kConfig.strided ? strides.dim * 2 : 2;
    char* const out_of_lane = static_cast<char*>(params.out) +
                              (batch * strides.batch + head * strides.head) * 2 +
                              (v_tile * kConfig.tile_v + lane() % 4 * kChunkElements) * dim_bytes;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first_row + 8 * half;
      float factor = 1.0f;
      if constexpr (kConfig.normalized()) {
        factor = 1.0f / (quad_sum(sums.normalizer[half]) + params.epsilon);
      }
#pragma unroll
      for (int n = 0; n < v_fragments(); n += 4) {
        unsigned words[4] = {};
#pragma unroll
        for (int i = 0; i < 4 && n + i < v_fragments(); ++i) {
          words[i] = pack<kConfig.dtype>(sums.out[n + i][2 * half] * factor,
                                         sums.out[n + i][2 * half + 1] * factor);
        }
        const Chunk chunk = gather_quad(words);
        if (query < params.seqlen_q && n + lane() % 4 < v_fragments()) {
          store_chunk<kConfig.strided>(
              out_of_lane + query * strides.row * 2 + n * kChunkElements * dim_bytes, chunk,
              dim_bytes);
        }
      }
    }
  }

  static __device__ __forceinline__ void output(const LinearParams& params, unsigned shared,
                                                const char* shared_bytes) {
    const int block = static_cast<int>(ptx::block_index());
    const int v_tile = block % v_tiles();
    const int query_tile = block / v_tiles() % params.num_query_tiles;
    const int batch_head = block / v_tiles() / params.num_query_tiles;
    const int batch = batch_head / params.num_heads_q;
    const int head = batch_head - batch * params.num_heads_q;
    const int kv_head = head / params.group_size;
    const unsigned k_tile = shared + QTile::bytes();
    const unsigned v_shared = k_tile + KTile::bytes();

    const int first_query = query_tile * kConfig.tile_m();
    QLoader(params.q, params.q_strides, batch, head, thread())
        .template load<true>(shared, first_query, params.seqlen_q);
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
    __syncthreads();
    unsigned q[depth_fragments()][4];
    query_features(q, shared, params.scale);

    // Row i sees keys [0, end(i)); those of whole chunks that the first row sees come as a state.
    const auto end_of_row = [&](int row) {
      if constexpr (!kConfig.causal) return params.seqlen_k;
      return clamp_to_int(params.offset + row + 1, 0, params.seqlen_k);
    };
    const int last_query =
        (params.seqlen_q - first_query < kConfig.tile_m() ? params.seqlen_q
                                                          : first_query + kConfig.tile_m()) -
        1;
    const int slot = kConfig.causal ? end_of_row(first_query) / kConfig.chunk : params.num_chunks;
    const int row = first_query + warp() * 16 + lane() / 4;
    Accumulators sums = {};
    const int kv_batch_head = batch * params.num_heads_kv + kv_head;
    add_state(sums, q, state_at(params, kv_batch_head, slot), k_tile,
              reinterpret_cast<const float*>(shared_bytes + QTile::bytes()), v_tile);
    if constexpr (kConfig.causal) {
      const KLoader k(params.k, params.k_strides, batch, kv_head, thread());
      const VLoader v = v_loader(params, batch, kv_head, v_tile);
      const int last_key[2] = {end_of_row(row) - 1, end_of_row(row + 8) - 1};
      for (int key = slot * kConfig.chunk; key < end_of_row(last_query); key += kConfig.tile_n()) {
        __syncthreads();
        k.template load<true>(k_tile, key, params.seqlen_k);
        v.template load<true>(v_shared, key, params.seqlen_k);
        ptx::cp_async_commit();
        ptx::cp_async_wait<0>();
        __syncthreads();
        add_pairs(sums, q, k_tile, v_shared, key, last_key);
      }
    }
    store_output(params, batch, head, v_tile, row, sums);
  }
};

template <LinearForwardConfig kConfig>
__device__ __forceinline__ void linear_states_cta(const LinearParams& params) {
  extern __shared__ SharedBytes shared[];
  LinearForward<kConfig>::states(params, static_cast<unsigned>(__cvta_generic_to_shared(shared)));
}

template <LinearForwardConfig kConfig>
__device__ __forceinline__ void linear_scan_cta(const LinearParams& params) {
  LinearForward<kConfig>::scan(params);
}

template <LinearForwardConfig kConfig>
__device__ __forceinline__ void linear_output_cta(const LinearParams& params) {
  extern __shared__ SharedBytes shared[];
  LinearForward<kConfig>::output(params, static_cast<unsigned>(__cvta_generic_to_shared(shared)),
                                 shared[0].bytes);
}

}  // namespace tilewright::attention
