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
//
// Here is the loop; forward_sm80_block.cuh says what falls to a block, forward_sm80_loads.cuh how
// its operands come, forward_sm80_store.cuh how its output leaves, forward_combine.cuh how parts of
// the keys are added up.
#pragma once

#include "attention/forward_combine.cuh"
#include "attention/forward_sm80_block.cuh"
#include "attention/forward_sm80_loads.cuh"
#include "attention/forward_sm80_store.cuh"
#include "attention/products.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/warp.cuh"

namespace tilewright::attention {

template <ForwardSm80Config kConfig>
struct ForwardSm80 {
  using Block = ForwardSm80Block<kConfig>;
  using Store = ForwardSm80Store<kConfig>;
  using Sources = ForwardSm80Sources<kConfig>;
  using QTile = typename Block::QTile;
  using KTile = typename Block::KTile;
  using VTile = typename Block::VTile;
  using Mask = typename Block::Mask;
  using Softmax = typename Block::Softmax;
  using Scores = typename Block::Scores;
  using Output = typename Block::Output;
  // Fragments of Q for all steps of the inner dimension; unused unless q_in_registers.
  using QRegisters = unsigned[kConfig.row_fragments()][kConfig.depth_fragments()][4];

  static __device__ __forceinline__ FragmentAddress<QTile> q_address() {
    return by_depth_address<QTile>(Block::lane(), Block::warp() * kConfig.rows_per_warp(), 0);
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

  // S += Q·Kᵀ
  static __device__ __forceinline__ void compute_scores(Scores& scores, const QRegisters& q,
                                                        unsigned q_tile, unsigned k_tile) {
    const FragmentAddress<QTile> q_from = q_address();
    const auto load_q = [&](int m, int depth, unsigned(&a)[4]) {
      if constexpr (kConfig.q_in_registers) {
#pragma unroll
        for (int r = 0; r < 4; ++r) a[r] = q[m][depth][r];
      } else {
        ptx::ldmatrix_x4(a, q_from.at(q_tile, 16 * m, depth));
      }
    };
    multiply_transposed<kConfig.dtype, kConfig.depth_fragments()>(
        scores, load_q, by_column_address<KTile>(Block::lane(), 0), k_tile);
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
        return pattern.row(Block::warp() * kConfig.rows_per_warp() + row, column);
      });
    } else {
      const int first_key = tiles.key_tile(step) * kConfig.tile_n;
      apply_mask(scores, [&](int row, int column) {
        const KeyInterval keys = mask.row(first_row + row);
        return KeysFrom<KeyInterval>{keys, first_key + column};
      });
    }
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
    multiply<kConfig.dtype, kConfig.tile_n / 16, 1>(
        out,
        [&](int m, int step, unsigned(&a)[4]) { pack_operand<kConfig.dtype>(weights[m], step, a); },
        by_depth_address<VTile>(Block::lane(), 0, 0), v_tile);
  }

  // Waits for K of this step, requests what comes next and computes S; on return V of this step is
  // there as well.
  template <class Tiles>
  static __device__ __forceinline__ void advance(const Sequence& sequence, const Tiles& tiles,
                                                 const Sources& sources, unsigned shared, int step,
                                                 int slot, const QRegisters& q, Scores& scores) {
    const unsigned q_tile = shared + kConfig.q_offset();
    const unsigned k_tile = Sources::stage(shared, slot);
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
        sources.template load_stage<false>(Sources::stage(shared, previous), tiles.key_tile(ahead),
                                           sequence.seqlen_k);
      }
      ptx::cp_async_commit();
      compute_scores(scores, q, q_tile, k_tile);
    }
  }

  static __device__ __forceinline__ void run(const ForwardParams& params, unsigned shared) {
    const typename Block::Work work = Block::work_of_block(params);
    const Sequence sequence = Block::sequence_of(params, work.batch);
    // Blocks are as many as the longest sequence needs.
    if (kConfig.varlen && work.query_tile * kConfig.tile_m >= Block::num_rows(sequence)) return;
    const Mask mask = Block::mask_of(params, work, sequence);
    const auto tiles = Block::part_of(params, mask.key_tiles(work.query_tile));
    Output out = {};
    Softmax softmax;
    if (tiles.begin < tiles.end) {
      const Sources sources(params, work, sequence, static_cast<int>(threadIdx.x));
      sources.load_first_tiles(sequence, work, tiles, shared);
      QRegisters q;
      if constexpr (kConfig.q_in_registers) {
        ptx::cp_async_wait<(kConfig.stages > 1 ? kConfig.stages - 1 : 1)>();
        __syncthreads();
        load_q_registers(q, shared + kConfig.q_offset());
      }
      const int first_row = Block::first_row_of_warp(work);
      int slot = 0;
      for (int step = tiles.end - 1; step >= tiles.begin; --step) {
        Scores scores = {};
        advance(sequence, tiles, sources, shared, step, slot, q, scores);
        if constexpr (kConfig.softcap) apply_softcap(scores, params.tanh_scale);
        if (!tiles.clean(step)) mask_scores(scores, mask, tiles, step, first_row);
        compute_weights(scores, out, softmax, params.scale_log2);
        accumulate_output(out, scores, Sources::stage(shared, slot) + KTile::bytes());
        slot = slot == kConfig.stages - 1 ? 0 : slot + 1;
      }
    }
    if constexpr (kConfig.split) {
      Store::store_partial(params, out, softmax);
    } else {
      Store::store_output(params, out, softmax);
    }
  }
};

template <ForwardSm80Config kConfig>
__device__ __forceinline__ void forward_sm80_cta(const ForwardParams& params) {
  extern __shared__ SharedBytes shared[];
  ForwardSm80<kConfig>::run(params, static_cast<unsigned>(__cvta_generic_to_shared(shared)));
}

}  // namespace tilewright::attention
