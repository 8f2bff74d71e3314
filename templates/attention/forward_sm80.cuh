// Forward attention on mma.sync.m16n8k16, for sm_80 and up.
//
// A block computes tile_m query rows of one (batch, head), or of packed_heads heads of one group
// (packed_rows.cuh): warp w owns rows_per_warp rows of it and never exchanges data with other warps
// but for the shared K and V tiles. It walks the key tiles that its rows can see, an interval or a
// list, from last to first, and for each: S = Q·Kᵀ, mask if the tile is not wholly visible, online
// softmax (softmax.cuh), O += P·V with P converted in registers to an A operand. O and the row
// statistics stay in registers throughout. Masked and clean tiles share one copy of the loop,
// parted by a uniform branch: two copies double the compile time and cost registers.
//
// K and V tiles come by cp.async into a ring of `stages` slots.
//   stages = 1: V of a step is loaded under S = Q·Kᵀ (the first one with its K), K of the next step
//               under softmax and P·V; two barriers a step. Meant for two or more blocks per SM.
//   stages > 1: K and V of step s + stages − 1 are requested at the start of step s, into the slot
//               that step s − 1 left; one barrier a step.
// Who waits for whom: a thread waits for its own copies (cp_async_wait), then a barrier publishes
// them to all warps and at the same time says that every warp has left the slot filled next.
//
// Shared memory: stages x { K tile | V tile }, then Q; with q_in_registers and stages > 1, Q lies
// over the last slot, which is first filled after every warp has taken its Q.
#pragma once

#include "attention/block_work.cuh"
#include "attention/config/forward_sm80.h"
#include "attention/masks.cuh"
#include "attention/packed_rows.cuh"
#include "attention/params/forward.h"
#include "attention/row_store.cuh"
#include "attention/sequence.cuh"
#include "attention/softmax.cuh"
#include "attention/tile.cuh"
#include "attention/types.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/warp.cuh"

namespace tilewright::attention {

template <ForwardSm80Config kConfig>
struct ForwardSm80 {
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
  static_assert(!(kConfig.lengths_vary() && kConfig.tile_list),
                "a tile list is of one pair of lengths");
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
  // Fragments of Q for all steps of the inner dimension; unused unless q_in_registers.
  using QRegisters = unsigned[kConfig.row_fragments()][kConfig.depth_fragments()][4];

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

  // Addresses within a tile of this lane's rows: A and V fragments take rows l % 16 and chunk
  // l / 16, K (a B operand stored by rows of n) rows l % 8 + 8·(l / 16) and chunk (l / 8) % 2, so
  // that each B fragment is a pair of adjacent registers, as HMMA wants it.
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ __forceinline__ FragmentAddress<QTile> q_address() {
    return {warp() * kConfig.rows_per_warp() + lane() % 16, lane() / 16};
  }
  static __device__ __forceinline__ FragmentAddress<KTile> k_address() {
    return {lane() % 8 + lane() / 16 * 8, lane() / 8 % 2};
  }
  static __device__ __forceinline__ FragmentAddress<VTile> v_address() {
    return {lane() % 16, lane() / 16};
  }

  static __device__ __forceinline__ void load_q_registers(QRegisters& q, unsigned q_tile) {
    const FragmentAddress<QTile> address = q_address();
#pragma unroll
    for (int m = 0; m < kConfig.row_fragments(); ++m) {
#pragma unroll
      for (int depth = 0; depth < kConfig.depth_fragments(); ++depth) {
        ptx::ldmatrix_x4(q[m][depth], address.at(q_tile, 16 * m, depth));
      }
    }
  }

  // S = Q·Kᵀ
  static __device__ __forceinline__ void compute_scores(Scores& scores, const QRegisters& q,
                                                        unsigned q_tile, unsigned k_tile) {
    const FragmentAddress<QTile> q_from = q_address();
    const FragmentAddress<KTile> k_from = k_address();
#pragma unroll
    for (int m = 0; m < kConfig.row_fragments(); ++m) {
#pragma unroll
      for (int n = 0; n < kConfig.key_fragments(); ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[m][n][i] = 0.0f;
      }
    }
#pragma unroll
    for (int depth = 0; depth < kConfig.depth_fragments(); ++depth) {
      unsigned a[kConfig.row_fragments()][4];
#pragma unroll
      for (int m = 0; m < kConfig.row_fragments(); ++m) {
        if constexpr (kConfig.q_in_registers) {
#pragma unroll
          for (int r = 0; r < 4; ++r) a[m][r] = q[m][depth][r];
        } else {
          ptx::ldmatrix_x4(a[m], q_from.at(q_tile, 16 * m, depth));
        }
      }
#pragma unroll
      for (int n = 0; n < kConfig.key_fragments(); n += 2) {
        unsigned b[4];
        ptx::ldmatrix_x4(b, k_from.at(k_tile, 8 * n, depth));
#pragma unroll
        for (int m = 0; m < kConfig.row_fragments(); ++m) {
          mma_m16n8k16<kConfig.dtype>(scores[m][n], a[m], b[0], b[1]);
          mma_m16n8k16<kConfig.dtype>(scores[m][n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  static __device__ __forceinline__ void apply_softcap(Scores& scores, float tanh_scale) {
#pragma unroll
    for (int m = 0; m < kConfig.row_fragments(); ++m) {
#pragma unroll
      for (int n = 0; n < kConfig.key_fragments(); ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[m][n][i] = tanh_accurate(scores[m][n][i] * tanh_scale);
      }
    }
  }

  // keys_of(row, column): the visible keys of one of the warp's rows, counted from a column of the
  // tile. Reads the lane anew, so that they are found here and not kept through the loop.
  template <class KeysOf>
  static __device__ __forceinline__ void apply_mask(Scores& scores, const KeysOf& keys_of) {
    const int fresh_lane = ptx::lane_index();
#pragma unroll
    for (int row = 0; row < 2 * kConfig.row_fragments(); ++row) {
      const auto keys = keys_of(fresh_lane / 4 + 8 * row, fresh_lane % 4 * 2);
#pragma unroll
      for (int n = 0; n < kConfig.key_fragments(); ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (!keys.visible(8 * n + i)) scores[row / 2][n][row % 2 * 2 + i] = -infinity();
        }
      }
    }
  }

  template <class Tiles>
  static __device__ __forceinline__ void mask_scores(Scores& scores, const Mask& mask,
                                                     const Tiles& tiles, int step, int first_row) {
    if constexpr (kConfig.tile_list) {
      const auto pattern = mask.pattern(tiles, step);
      apply_mask(scores, [&](int row, int column) {
        return pattern.row(warp() * kConfig.rows_per_warp() + row, column);
      });
    } else {
      const int first_key = tiles.key_tile(step) * kConfig.tile_n;
      apply_mask(scores, [&](int row, int column) {
        const KeyInterval keys = mask.row(first_row + row);
        return KeysFrom<KeyInterval>{keys, first_key + column};
      });
    }
  }

  static __device__ __forceinline__ int first_row_of_warp(const Work& work) {
    return work.query_tile * kConfig.tile_m + warp() * kConfig.rows_per_warp();
  }

  // Of a thread's `row`-th row.
  static __device__ __forceinline__ RowPlace place(const Work& work, int row) {
    return place_of_row<kConfig.packed_heads>(first_row_of_warp(work) + lane() / 4 + 8 * row);
  }

  // Scores become weights; the output so far is brought to the new maximum.
  static __device__ __forceinline__ void compute_weights(Scores& scores, Output& out,
                                                         Softmax& softmax, float scale_log2) {
#pragma unroll
    for (int row = 0; row < 2 * kConfig.row_fragments(); ++row) {
      const float rescale = softmax.template update<2 * kConfig.key_fragments()>(
          row, scale_log2,
          [&](int j) -> float& { return scores[row / 2][j / 2][row % 2 * 2 + j % 2]; });
#pragma unroll
      for (int n = 0; n < kConfig.out_fragments(); ++n) {
        out[row / 2][n][row % 2 * 2] *= rescale;
        out[row / 2][n][row % 2 * 2 + 1] *= rescale;
      }
    }
  }

  // O += P·V
  static __device__ __forceinline__ void accumulate_output(Output& out, const Scores& weights,
                                                           unsigned v_tile) {
    const FragmentAddress<VTile> v_from = v_address();
#pragma unroll
    for (int key = 0; key < kConfig.tile_n / 16; ++key) {
      // Two accumulator fragments side by side are one A fragment, once packed.
      unsigned a[kConfig.row_fragments()][4];
#pragma unroll
      for (int m = 0; m < kConfig.row_fragments(); ++m) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const float(&pair)[4] = weights[m][2 * key + r / 2];
          a[m][r] = pack<kConfig.dtype>(pair[r % 2 * 2], pair[r % 2 * 2 + 1]);
        }
      }
#pragma unroll
      for (int n = 0; n + 1 < kConfig.out_fragments(); n += 2) {
        unsigned b[4];
        ptx::ldmatrix_x4_trans(b, v_from.at(v_tile, 16 * key, n / 2));
#pragma unroll
        for (int m = 0; m < kConfig.row_fragments(); ++m) {
          mma_m16n8k16<kConfig.dtype>(out[m][n], a[m], b[0], b[1]);
          mma_m16n8k16<kConfig.dtype>(out[m][n + 1], a[m], b[2], b[3]);
        }
      }
      if constexpr (kConfig.out_fragments() % 2 == 1) {
        unsigned b[2];
        ptx::ldmatrix_x2_trans(b, v_from.at(v_tile, 16 * key, kConfig.out_fragments() / 2));
#pragma unroll
        for (int m = 0; m < kConfig.row_fragments(); ++m) {
          mma_m16n8k16<kConfig.dtype>(out[m][kConfig.out_fragments() - 1], a[m], b[0], b[1]);
        }
      }
    }
  }

  // Asks for its work anew rather than keeping it through the loop: registers are the scarcest
  // resource there.
  static __device__ __forceinline__ void store_output(const ForwardParams& params,
                                                      const Output& out, Softmax& softmax) {
    softmax.finish();
    const Work work = work_of_block(params);
    const Sequence sequence = sequence_of(params, work.batch);
    const TensorStrides& strides = params.out_strides;
    const long long dim_bytes = kConfig.strided ? strides.dim * 2 : 2;
    const int chunk_offset = lane() % 4 * kChunkElements;
    char* const out_of_lane =
        static_cast<char*>(params.out) +
        (work.batch * strides.batch + work.head * strides.head + sequence.first_q * strides.row) *
            2 +
        chunk_offset * dim_bytes;
#pragma unroll
    for (int row = 0; row < 2 * kConfig.row_fragments(); ++row) {
      const float inverse_sum = softmax.inverse_sum(row);
      Chunk chunks[ceil_div(kConfig.out_fragments(), 4)];
#pragma unroll
      for (int n = 0; n < kConfig.out_fragments(); n += 4) {
        unsigned words[4] = {};
#pragma unroll
        for (int i = 0; i < 4 && n + i < kConfig.out_fragments(); ++i) {
          const float(&pair)[4] = out[row / 2][n + i];
          words[i] = pack<kConfig.dtype>(pair[row % 2 * 2] * inverse_sum,
                                         pair[row % 2 * 2 + 1] * inverse_sum);
        }
        chunks[n / 4] = gather_quad(words);
      }
      const RowPlace at = place(work, row);
      if (at.query >= sequence.seqlen_q) continue;
      if (params.lse != nullptr && lane() % 4 == 0) {
        lse_of<kConfig.varlen>(params, work.batch, work.head + at.head, sequence)[at.query] =
            softmax.log_sum(row);
      }
      char* const to = out_of_lane + (at.head * strides.head + at.query * strides.row) * 2;
#pragma unroll
      for (int n = 0; n < kConfig.out_fragments(); n += 4) {
        if (n + 4 <= kConfig.out_fragments() || n + lane() % 4 < kConfig.out_fragments()) {
          store_chunk<kConfig.strided>(to + n * kChunkElements * dim_bytes, chunks[n / 4],
                                       dim_bytes);
        }
      }
    }
  }

  // What a part of the keys gives, in fp32 for the kernel that combines.
  static __device__ __forceinline__ void store_partial(const ForwardParams& params,
                                                       const Output& out, Softmax& softmax) {
    softmax.finish();
    const Work work = work_of_block(params);
    const int seqlen_q = sequence_of(params, work.batch).seqlen_q;
    const long long first_head =
        static_cast<long long>(ptx::block_index_y()) * params.num_batch_heads +
        work.batch * params.num_heads_q + work.head;
#pragma unroll
    for (int row = 0; row < 2 * kConfig.row_fragments(); ++row) {
      const RowPlace at = place(work, row);
      if (at.query >= seqlen_q) continue;
      const long long index = (first_head + at.head) * params.seqlen_q + at.query;
      const float inverse_sum = softmax.inverse_sum(row);
      if (lane() % 4 == 0) params.partial_lse[index] = softmax.log_sum(row);
      float* const to = params.partial_out + index * kConfig.head_dim_v + lane() % 4 * 2;
#pragma unroll
      for (int n = 0; n < kConfig.out_fragments(); ++n) {
        const float(&pair)[4] = out[row / 2][n];
        to[8 * n] = pair[row % 2 * 2] * inverse_sum;
        to[8 * n + 1] = pair[row % 2 * 2 + 1] * inverse_sum;
      }
    }
  }

  // The operands of a block's loop, as one thread sees them.
  struct Sources {
    QLoader q;
    KLoader k;
    VLoader v;

    __device__ __forceinline__ Sources(const ForwardParams& params, const Work& work,
                                       const Sequence& sequence, int thread)
        : q(from_row(params.q, params.q_strides, sequence.first_q), params.q_strides, work.batch,
            work.head, thread),
          k(key_loader<KLoader>(params, params.k, params.k_strides, work, sequence, thread)),
          v(key_loader<VLoader>(params, params.v, params.v_strides, work, sequence, thread)) {}

    template <class KeyLoader>
    static __device__ __forceinline__ KeyLoader key_loader(const ForwardParams& params,
                                                           const void* tensor,
                                                           const TensorStrides& strides,
                                                           const Work& work,
                                                           const Sequence& sequence, int thread) {
      if constexpr (kConfig.page_size > 0) {
        const int* const table = params.block_table + work.batch * params.table_width;
        return KeyLoader(tensor, strides, 0, work.kv_head, thread, KeyRows(strides, table));
      } else {
        return KeyLoader(from_row(tensor, strides, sequence.first_k), strides, work.batch,
                         work.kv_head, thread);
      }
    }

    static __device__ __forceinline__ const void* from_row(const void* tensor,
                                                           const TensorStrides& strides,
                                                           long long row) {
      return static_cast<const char*>(tensor) + row * strides.row * 2;
    }
  };

  static __device__ __forceinline__ unsigned stage(unsigned shared, int slot) {
    return shared + static_cast<unsigned>(slot * kConfig.stage_bytes());
  }

  // Only the last key tile, which is loaded first, may reach beyond seqlen_k.
  template <bool kChecked>
  static __device__ __forceinline__ void load_stage(const Sources& sources, unsigned stage,
                                                    int tile, int seqlen_k) {
    sources.k.template load<kChecked>(stage, tile * kConfig.tile_n, seqlen_k);
    sources.v.template load<kChecked>(stage + KTile::bytes(), tile * kConfig.tile_n, seqlen_k);
  }

  // Requests Q, then K and V of the first step (and of those up to stages − 1). Q has its own
  // group, so that it can be waited for alone.
  template <class Tiles>
  static __device__ __forceinline__ void load_first_tiles(const Sequence& sequence,
                                                          const Work& work, const Tiles& tiles,
                                                          const Sources& sources, unsigned shared) {
    sources.q.template load<true>(shared + kConfig.q_offset(), work.query_tile * kConfig.tile_m,
                                  num_rows(sequence));
    ptx::cp_async_commit();
    const int last = tiles.end - 1;
    load_stage<true>(sources, shared, tiles.key_tile(last), sequence.seqlen_k);
    ptx::cp_async_commit();
#pragma unroll
    for (int ahead = 1; ahead < kConfig.stages - 1; ++ahead) {
      if (last - ahead >= tiles.begin) {
        load_stage<false>(sources, stage(shared, ahead), tiles.key_tile(last - ahead),
                          sequence.seqlen_k);
      }
      ptx::cp_async_commit();
    }
  }

  // Waits for K of this step, requests what comes next and computes S; on return V of this step is
  // there as well.
  template <class Tiles>
  static __device__ __forceinline__ void advance(const Sequence& sequence, const Tiles& tiles,
                                                 const Sources& sources, unsigned shared, int step,
                                                 int slot, const QRegisters& q, Scores& scores) {
    const unsigned q_tile = shared + kConfig.q_offset();
    const unsigned k_tile = stage(shared, slot);
    ptx::cp_async_wait<(kConfig.stages > 1 ? kConfig.stages - 2 : 0)>();
    __syncthreads();
    if constexpr (kConfig.stages == 1) {
      if (step < tiles.end - 1) {
        sources.v.template load<false>(k_tile + KTile::bytes(),
                                       tiles.key_tile(step) * kConfig.tile_n, sequence.seqlen_k);
        ptx::cp_async_commit();
      }
      compute_scores(scores, q, q_tile, k_tile);
      ptx::cp_async_wait<0>();
      __syncthreads();
      if (step > tiles.begin) {
        sources.k.template load<false>(k_tile, tiles.key_tile(step - 1) * kConfig.tile_n,
                                       sequence.seqlen_k);
        ptx::cp_async_commit();
      }
    } else {
      const int ahead = step - (kConfig.stages - 1);
      if (ahead >= tiles.begin) {
        const int previous = slot == 0 ? kConfig.stages - 1 : slot - 1;
        load_stage<false>(sources, stage(shared, previous), tiles.key_tile(ahead),
                          sequence.seqlen_k);
      }
      ptx::cp_async_commit();
      compute_scores(scores, q, q_tile, k_tile);
    }
  }

  static __device__ __forceinline__ void run(const ForwardParams& params, unsigned shared) {
    const Work work = work_of_block(params);
    const Sequence sequence = sequence_of(params, work.batch);
    // Blocks are as many as the longest sequence needs.
    if (kConfig.varlen && work.query_tile * kConfig.tile_m >= num_rows(sequence)) return;
    const Mask mask = mask_of(params, work, sequence);
    const auto tiles = part_of(params, mask.key_tiles(work.query_tile));
    Output out = {};
    Softmax softmax;
    if (tiles.begin < tiles.end) {
      const Sources sources(params, work, sequence, static_cast<int>(threadIdx.x));
      load_first_tiles(sequence, work, tiles, sources, shared);
      QRegisters q;
      if constexpr (kConfig.q_in_registers) {
        ptx::cp_async_wait<(kConfig.stages > 1 ? kConfig.stages - 1 : 1)>();
        __syncthreads();
        load_q_registers(q, shared + kConfig.q_offset());
      }
      const int first_row = first_row_of_warp(work);
      int slot = 0;
      for (int step = tiles.end - 1; step >= tiles.begin; --step) {
        Scores scores;
        advance(sequence, tiles, sources, shared, step, slot, q, scores);
        if constexpr (kConfig.softcap) apply_softcap(scores, params.tanh_scale);
        if (!tiles.clean(step)) mask_scores(scores, mask, tiles, step, first_row);
        compute_weights(scores, out, softmax, params.scale_log2);
        accumulate_output(out, scores, stage(shared, slot) + KTile::bytes());
        slot = slot == kConfig.stages - 1 ? 0 : slot + 1;
      }
    }
    if constexpr (kConfig.split) {
      store_partial(params, out, softmax);
    } else {
      store_output(params, out, softmax);
    }
  }
};

template <ForwardSm80Config kConfig>
__device__ __forceinline__ void forward_sm80_cta(const ForwardParams& params) {
  extern __shared__ SharedBytes shared[];
  ForwardSm80<kConfig>::run(params, static_cast<unsigned>(__cvta_generic_to_shared(shared)));
}

// Adds up the parts of one row per warp: lse = ln Σ e^lse_s, out = Σ e^(lse_s − lse) out_s. A part
// whose row saw no key (lse −inf) adds nothing.
template <ForwardSm80Config kConfig>
__device__ __forceinline__ void forward_combine_cta(const ForwardParams& params) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int block = static_cast<int>(ptx::block_index());
  const int blocks_per_head = ceil_div(params.seqlen_q, kConfig.num_warps);
  const int batch_head = block / blocks_per_head;
  const int query = (block - batch_head * blocks_per_head) * kConfig.num_warps + warp;
  const long long num_rows = static_cast<long long>(params.num_batch_heads) * params.seqlen_q;
  const long long row = static_cast<long long>(batch_head) * params.seqlen_q + query;
  const int batch = batch_head / params.num_heads_q;
  const int head = batch_head - batch * params.num_heads_q;
  const auto sequence = ForwardSm80<kConfig>::sequence_of(params, batch);
  if (query >= sequence.seqlen_q) return;

  float max = -infinity();
  for (int part = 0; part < params.num_splits; ++part) {
    max = fmaxf(max, params.partial_lse[part * num_rows + row]);
  }
  const float offset = max == -infinity() ? 0.0f : max;
  const auto weight_of = [&](int part) {
    return ptx::exp2_approx((params.partial_lse[part * num_rows + row] - offset) * log2_e());
  };
  float sum = 0.0f;
  for (int part = 0; part < params.num_splits; ++part) sum += weight_of(part);
  const float inverse_sum = sum == 0.0f ? 0.0f : 1.0f / sum;

  const TensorStrides& strides = params.out_strides;
  char* const to =
      static_cast<char*>(params.out) +
      (batch * strides.batch + head * strides.head + (sequence.first_q + query) * strides.row) * 2;
  const long long dim_bytes = kConfig.strided ? strides.dim * 2 : 2;
  for (int column = lane; column < kConfig.head_dim_v; column += 32) {
    float out = 0.0f;
    for (int part = 0; part < params.num_splits; ++part) {
      const float weight = weight_of(part);
      if (weight == 0.0f) continue;
      out += weight * params.partial_out[(part * num_rows + row) * kConfig.head_dim_v + column];
    }
    *reinterpret_cast<unsigned short*>(to + column * dim_bytes) =
        static_cast<unsigned short>(pack<kConfig.dtype>(out * inverse_sum, 0.0f));
  }
  if (params.lse != nullptr && lane == 0) {
    lse_of<kConfig.varlen>(params, batch, head, sequence)[query] =
        max + ptx::log2_approx(sum) * ln_2();
  }
}

}  // namespace tilewright::attention
