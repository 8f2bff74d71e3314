// Q, K and V of a block of forward_sm80 on their way into shared memory:
// stages x { K tile | V tile }, then Q (forward_sm80.cuh).
#pragma once

#include "attention/forward_sm80_block.cuh"
#include "ptx/cp_async.cuh"

namespace tilewright::attention {

// The operands of a block's loop, as one thread sees them.
template <ForwardSm80Config kConfig>
struct ForwardSm80Sources {
  using Block = ForwardSm80Block<kConfig>;
  using Work = typename Block::Work;
  using KeyRows = typename Block::KeyRows;

  typename Block::QLoader q;
  typename Block::KLoader k;
  typename Block::VLoader v;

  __device__ __forceinline__ ForwardSm80Sources(const ForwardParams& params, const Work& work,
                                                const Sequence& sequence, int thread)
      : q(from_row(params.q, params.q_strides, sequence.first_q), params.q_strides, work.batch,
          work.head, thread),
        k(key_loader<typename Block::KLoader>(params, params.k, params.k_strides, work, sequence,
                                              thread)),
        v(key_loader<typename Block::VLoader>(params, params.v, params.v_strides, work, sequence,
                                              thread)) {}

  template <class KeyLoader>
  static __device__ __forceinline__ KeyLoader key_loader(const ForwardParams& params,
                                                         const void* tensor,
                                                         const TensorStrides& strides,
                                                         const Work& work, const Sequence& sequence,
                                                         int thread) {
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

  static __device__ __forceinline__ unsigned stage(unsigned shared, int slot) {
    return shared + static_cast<unsigned>(slot * kConfig.stage_bytes());
  }

  // Only the last key tile, which is loaded first, may reach beyond seqlen_k.
  template <bool kChecked>
  __device__ __forceinline__ void load_stage(unsigned stage, int tile, int seqlen_k) const {
    k.template load<kChecked>(stage, tile * kConfig.tile_n, seqlen_k);
    v.template load<kChecked>(stage + Block::KTile::bytes(), tile * kConfig.tile_n, seqlen_k);
  }

  // Requests Q, then K and V of the first step (and of those up to stages − 1). Q has its own
  // group, so that it can be waited for alone.
  template <class Tiles>
  __device__ __forceinline__ void load_first_tiles(const Sequence& sequence, const Work& work,
                                                   const Tiles& tiles, unsigned shared) const {
    q.template load<true>(shared + kConfig.q_offset(), work.query_tile * kConfig.tile_m,
                          Block::num_rows(sequence));
    ptx::cp_async_commit();
    const int last = tiles.end - 1;
    load_stage<true>(shared, tiles.key_tile(last), sequence.seqlen_k);
    ptx::cp_async_commit();
#pragma unroll
    for (int ahead = 1; ahead < kConfig.stages - 1; ++ahead) {
      if (last - ahead >= tiles.begin) {
        load_stage<false>(stage(shared, ahead), tiles.key_tile(last - ahead), sequence.seqlen_k);
      }
      ptx::cp_async_commit();
    }
  }
};

}  // namespace tilewright::attention
