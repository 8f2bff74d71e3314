// Forward attention on TMA and wgmma, for sm_90a.
//
// A block computes tile_m query rows of one (batch, head). Warpgroup 0 produces: one thread of it
// loads Q once, then K and V tile by tile. Each of the others consumes: it owns 64 query rows and
// walks the key tiles that the block's rows can see from last to first. For each: S = Q·Kᵀ, mask if
// the tile is not wholly visible, online softmax (softmax.cuh), O += P·V with P converted in
// registers to an A operand. O and the row statistics stay in registers throughout. Consumers never
// exchange data, so one's softmax runs under another's products. Masked and clean tiles have loops
// of their own: first the masked tiles at the end of the keys, then the clean ones, then, under a
// window, the masked ones at the beginning.
//
// Copies: Q, K and V are tensor maps (dim, row, head, batch); a tile is one box per 64 columns.
// What lies beyond the sequence or the head dim is filled with zeros, so a head dim costs its
// multiple of 16 in Q·K, of 8 in P·V, and of 64 in shared memory.
// Of packed sequences the maps cover the whole tensor, (dim, row, head, 1), and the box of a
// sequence's last key tile runs on into the rows of the next one, whatever they hold. Its scores
// are masked, but in P·V a weight of 0 would meet NaN there; so three warps of the producer, idle
// otherwise, put zeros over those rows of V while the consumers compute S. No other tile reaches
// beyond the sequence, and only this one's consumers wait for it. Rows of Q beyond the sequence
// are computed and not stored.
// Who waits for whom: K and V have a ring of `stages` slots each. `full` barriers wait for the
// producer's arrival and all bytes of the tile, `empty` ones for every consumer warp, which arrives
// once the products that read the tile are done.
//
// Shared memory: Q · K slots · V slots · barriers (q full, then k full, k empty, v full, v empty of
// each slot, then v cleared). Tiles start at multiples of 1024 bytes, the period of the swizzle.
#pragma once

#include "attention/block_work.cuh"
#include "attention/config/forward_sm90.h"
#include "attention/masks.cuh"
#include "attention/params/forward_sm90.h"
#include "attention/ring.cuh"
#include "attention/row_store.cuh"
#include "attention/sequence.cuh"
#include "attention/softmax.cuh"
#include "attention/types.cuh"
#include "ptx/fence.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tensor_copy.cuh"
#include "ptx/warp.cuh"
#include "ptx/warpgroup.cuh"
#include "ptx/wgmma_descriptor.cuh"
#include "ptx/wgmma_registers.cuh"
#include "ptx/wgmma_shared.cuh"

namespace tilewright::attention {

template <ForwardSm90Config kConfig>
struct ForwardSm90 {
  static_assert(kConfig.dtype == Dtype::kFloat16 || kConfig.dtype == Dtype::kBFloat16,
                "forward_sm90 takes fp16 and bf16");
  static_assert(kConfig.head_dim_qk % 8 == 0 && kConfig.head_dim_qk >= 8 &&
                    kConfig.head_dim_qk <= 256,
                "head_dim_qk must be a multiple of 8 from 8 to 256");
  static_assert(kConfig.head_dim_v % 8 == 0 && kConfig.head_dim_v >= 8 && kConfig.head_dim_v <= 256,
                "head_dim_v must be a multiple of 8 from 8 to 256");
  static_assert(kConfig.tile_n % 16 == 0 && kConfig.tile_n >= 16 && kConfig.tile_n <= 256,
                "tile_n must be a multiple of 16 from 16 to 256");
  static_assert(kConfig.consumer_warpgroups >= 1 && kConfig.consumer_warpgroups <= 3,
                "one to three consumer warpgroups");
  static_assert(kConfig.stages >= 1, "at least one stage");

  using Position = RingPosition<kConfig.stages>;
  using Mask = typename Select<kConfig.row_range, RowRange<kConfig.tile_m(), kConfig.tile_n>,
                               AllVisible<kConfig.tile_m(), kConfig.tile_n>>::Type;
  static_assert(KeyMask<Mask>);
  // Of one thread: two rows; element i of an accumulator belongs to row i / 2 % 2.
  using Softmax = OnlineSoftmax<2>;
  using Scores = float[kConfig.tile_n / 2];
  using Weights = unsigned[kConfig.tile_n / 16][4];  // A operands
  using Output = float[kConfig.head_dim_v / 2];
  enum : int { kFragments = kConfig.head_dim_v / 8, kClearingThreads = 96 };

  static constexpr ptx::WgmmaInput input() {
    return kConfig.dtype == Dtype::kBFloat16 ? ptx::WgmmaInput::kBF16 : ptx::WgmmaInput::kF16;
  }

  const ForwardSm90Params& params;
  unsigned shared;
  BlockWork work;
  Sequence sequence;
  Mask mask;
  KeyTiles tiles;

  __device__ __forceinline__ ForwardSm90(const ForwardSm90Params& from, unsigned shared_address)
      : params(from),
        shared(shared_address),
        work(block_work(from.forward)),
        sequence(sequence_of<kConfig.varlen, false>(from.forward, work.batch)),
        mask(sequence),
        tiles(mask.key_tiles(work.query_tile)) {}

  __device__ __forceinline__ unsigned k_tile(int slot) const {
    return shared + kConfig.k_offset() + static_cast<unsigned>(slot * kConfig.k_bytes());
  }
  __device__ __forceinline__ unsigned v_tile(int slot) const {
    return shared + kConfig.v_offset() + static_cast<unsigned>(slot * kConfig.v_bytes());
  }
  __device__ __forceinline__ unsigned q_full() const { return shared + kConfig.barrier_offset(); }
  __device__ __forceinline__ unsigned k_full(int slot) const {
    return q_full() + 8 + static_cast<unsigned>(slot * 32);
  }
  __device__ __forceinline__ unsigned k_empty(int slot) const { return k_full(slot) + 8; }
  __device__ __forceinline__ unsigned v_full(int slot) const { return k_full(slot) + 16; }
  __device__ __forceinline__ unsigned v_empty(int slot) const { return k_full(slot) + 24; }
  __device__ __forceinline__ unsigned v_cleared() const { return k_full(kConfig.stages); }

  // Blocks are as many as the longest sequence needs.
  __device__ __forceinline__ bool has_rows() const {
    return !kConfig.varlen || work.query_tile * kConfig.tile_m() < sequence.seqlen_q;
  }
  // Whether the box of a key tile holds rows beyond the sequence that are not known to be zero.
  __device__ __forceinline__ bool runs_over(int tile) const {
    return kConfig.varlen && (tile + 1) * kConfig.tile_n > mask.seqlen_k;
  }

  __device__ __forceinline__ void initialise_barriers() const {
    constexpr unsigned kConsumerWarps = 4 * kConfig.consumer_warpgroups;
    ptx::mbarrier_init(q_full(), 1);
    for (int slot = 0; slot < kConfig.stages; ++slot) {
      ptx::mbarrier_init(k_full(slot), 1);
      ptx::mbarrier_init(k_empty(slot), kConsumerWarps);
      ptx::mbarrier_init(v_full(slot), 1);
      ptx::mbarrier_init(v_empty(slot), kConsumerWarps);
    }
    if constexpr (kConfig.varlen) ptx::mbarrier_init(v_cleared(), kClearingThreads);
    ptx::fence_mbarrier_init();
  }

  // Rows [row, row + kRows) of one head, as boxes side by side. Rows count from the sequence's
  // first, which is at `sequence_row` of the map.
  template <int kRows, int kHeadDim>
  __device__ __forceinline__ void load(unsigned to, const TensorMap& map, unsigned full,
                                       long long sequence_row, int row, int head) const {
    const int map_row = static_cast<int>(sequence_row) + row;
    const int batch = kConfig.varlen ? 0 : work.batch;
    constexpr int kColumnBytes = kRows * 128;
    constexpr int kColumns = ForwardSm90Config::columns(kHeadDim);
    ptx::mbarrier_arrive_expect_tx(full, kColumns * kColumnBytes);
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      ptx::tensor_load(to + static_cast<unsigned>(column * kColumnBytes), &map, full,
                       {column * 64, map_row, head, batch});
    }
  }

  // The producer: one thread.
  __device__ __forceinline__ void load_tiles() const {
    load<kConfig.tile_m(), kConfig.head_dim_qk>(shared, params.q_map, q_full(), sequence.first_q,
                                                work.query_tile * kConfig.tile_m(), work.head);
    Position position;
#pragma unroll 1
    for (int tile = tiles.end - 1; tile >= tiles.begin; --tile, position.advance()) {
      const int slot = position.slot;
      const int key = tile * kConfig.tile_n;
      ptx::mbarrier_wait(k_empty(slot), position.phase ^ 1);
      load<kConfig.tile_n, kConfig.head_dim_qk>(k_tile(slot), params.k_map, k_full(slot),
                                                sequence.first_k, key, work.kv_head);
      ptx::mbarrier_wait(v_empty(slot), position.phase ^ 1);
      load<kConfig.tile_n, kConfig.head_dim_v>(v_tile(slot), params.v_map, v_full(slot),
                                               sequence.first_k, key, work.kv_head);
    }
  }

  // Zeros over the rows of the last key tile, the first one loaded, that are not the sequence's.
  // The swizzle moves nothing out of its row of 128 bytes.
  __device__ __forceinline__ void clear_rows_beyond() const {
    const int tile = tiles.end - 1;
    if (!runs_over(tile)) return;
    constexpr int kColumnBytes = kConfig.tile_n * 128;
    const int first = (sequence.seqlen_k - tile * kConfig.tile_n) * 128 +
                      (thread() - (128 - kClearingThreads)) * kChunkBytes;
    ptx::mbarrier_wait(v_full(0), 0);
#pragma unroll 1
    for (int offset = first; offset < kColumnBytes; offset += kClearingThreads * kChunkBytes) {
#pragma unroll
      for (int column = 0; column < ForwardSm90Config::columns(kConfig.head_dim_v); ++column) {
        const unsigned address = v_tile(0) + static_cast<unsigned>(column * kColumnBytes + offset);
        *static_cast<Chunk*>(__cvta_shared_to_generic(address)) = {};
      }
    }
    ptx::fence_proxy_async_shared();
    ptx::mbarrier_arrive(v_cleared());
  }

  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x) % 128; }
  // Uniform in the warp, and known to be.
  static __device__ __forceinline__ int consumer() {
    return static_cast<int>(ptx::warp_uniform(threadIdx.x / 128)) - 1;
  }
  // The first of the thread's two rows; the other is 8 further.
  __device__ __forceinline__ int first_query() const {
    return work.query_tile * kConfig.tile_m() + consumer() * 64 + thread() / 32 * 16 +
           ptx::lane_index() / 4;
  }

  // Every warp once, after its wait for the products that read the slot.
  static __device__ __forceinline__ void release(unsigned empty) {
    if (ptx::elect_one()) ptx::mbarrier_arrive(empty);
  }

  // S = Q·Kᵀ
  __device__ __forceinline__ void compute_scores(Scores& scores, int slot) const {
    const unsigned q_rows = shared + static_cast<unsigned>(consumer() * 64 * 128);
    ptx::register_fence(scores);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kConfig.head_dim_qk_padded() / 16; ++step) {
      const int column = step / 4;
      const unsigned within = step % 4 * 32;
      const auto q = ptx::k_major_descriptor<128>(
          q_rows + static_cast<unsigned>(column * kConfig.tile_m() * 128));
      const auto k = ptx::k_major_descriptor<128>(
          k_tile(slot) + static_cast<unsigned>(column * kConfig.tile_n * 128));
      ptx::wgmma<input()>(scores, ptx::descriptor_advance(q, within),
                          ptx::descriptor_advance(k, within), step > 0);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::register_fence(scores);
  }

  // O += P·V
  __device__ __forceinline__ void accumulate_output(Output& out, Weights& weights, int slot) const {
    ptx::register_fence(out);
    ptx::register_fence(weights);
    ptx::wgmma_fence();
    const auto v = ptx::mn_major_descriptor<128>(v_tile(slot), kConfig.tile_n * 128);
#pragma unroll
    for (int step = 0; step < kConfig.tile_n / 16; ++step) {
      ptx::wgmma<input(), ptx::Major::kMN>(
          out, weights[step], ptx::descriptor_advance(v, static_cast<unsigned>(step * 2048)), 1);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::register_fence(out);
    ptx::register_fence(weights);
  }

  __device__ __forceinline__ void apply_softcap(Scores& scores) const {
#pragma unroll
    for (int i = 0; i < kConfig.tile_n / 2; ++i) {
      scores[i] = tanh_accurate(scores[i] * params.forward.tanh_scale);
    }
  }

  __device__ __forceinline__ void apply_mask(Scores& scores, int tile) const {
    const int first_key = tile * kConfig.tile_n + ptx::lane_index() % 4 * 2;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const typename Mask::Row keys = mask.row(first_query() + 8 * row);
#pragma unroll
      for (int j = 0; j < kConfig.tile_n / 4; ++j) {
        const int key = first_key + j / 2 * 8 + j % 2;
        if (!keys.visible(key)) scores[j / 2 * 4 + row * 2 + j % 2] = -infinity();
      }
    }
  }

  // Scores become weights; the output so far is brought to the new maximum.
  __device__ __forceinline__ void compute_weights(Scores& scores, Weights& weights, Output& out,
                                                  Softmax& softmax) const {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float rescale = softmax.template update<kConfig.tile_n / 4>(
          row, params.forward.scale_log2,
          [&](int j) -> float& { return scores[j / 2 * 4 + row * 2 + j % 2]; });
#pragma unroll
      for (int n = 0; n < kFragments; ++n) {
        out[n * 4 + row * 2] *= rescale;
        out[n * 4 + row * 2 + 1] *= rescale;
      }
    }
    // Two 8-column blocks of an accumulator side by side are one A operand, once packed.
#pragma unroll
    for (int step = 0; step < kConfig.tile_n / 16; ++step) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        weights[step][r] =
            pack<kConfig.dtype>(scores[step * 8 + 2 * r], scores[step * 8 + 2 * r + 1]);
      }
    }
  }

  // The tiles [first, end) from last to first.
  template <bool kMasked>
  __device__ __forceinline__ void consume(int first, int end, Output& out, Softmax& softmax,
                                          Position& position) const {
#pragma unroll 1
    for (int tile = end - 1; tile >= first; --tile, position.advance()) {
      const int slot = position.slot;
      Scores scores;
      Weights weights;
      ptx::mbarrier_wait(k_full(slot), position.phase);
      compute_scores(scores, slot);
      release(k_empty(slot));
      if constexpr (kConfig.softcap) apply_softcap(scores);
      if constexpr (kMasked) apply_mask(scores, tile);
      compute_weights(scores, weights, out, softmax);
      ptx::mbarrier_wait(v_full(slot), position.phase);
      if constexpr (kMasked) {
        if (runs_over(tile)) ptx::mbarrier_wait(v_cleared(), 0);
      }
      accumulate_output(out, weights, slot);
      release(v_empty(slot));
    }
  }

  // Asks for its sequence anew rather than keeping it through the loops.
  __device__ __forceinline__ void store_output(const Output& out, Softmax& softmax) const {
    softmax.finish();
    const ForwardParams& forward = params.forward;
    const TensorStrides& strides = forward.out_strides;
    const Sequence own = sequence_of<kConfig.varlen, false>(forward, work.batch);
    char* const out_of_head =
        static_cast<char*>(forward.out) +
        (work.batch * strides.batch + work.head * strides.head + own.first_q * strides.row) * 2;
    float* const lse = lse_of<kConfig.varlen>(forward, work.batch, work.head, own);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int query = first_query() + 8 * row;
      const bool exists = query < own.seqlen_q;
      if (exists && forward.lse != nullptr && thread() % 4 == 0) lse[query] = softmax.log_sum(row);
      store_row<kConfig.dtype, false>(reinterpret_cast<const float(&)[kFragments][4]>(out), row,
                                      softmax.inverse_sum(row), exists,
                                      out_of_head + query * strides.row * 2, 2, kFragments,
                                      [](int fragment) { return fragment; });
    }
  }

  __device__ __forceinline__ void compute() const {
    Output out = {};
    Softmax softmax;
    if (tiles.begin < tiles.end) {
      Position position;
      ptx::mbarrier_wait(q_full(), 0);
      consume<true>(tiles.clean_end, tiles.end, out, softmax, position);
      consume<false>(tiles.clean_begin, tiles.clean_end, out, softmax, position);
      if constexpr (kConfig.row_range) {
        consume<true>(tiles.begin, tiles.clean_begin, out, softmax, position);
      }
    }
    store_output(out, softmax);
  }
};

template <ForwardSm90Config kConfig>
__device__ __forceinline__ void forward_sm90_cta(const ForwardSm90Params& params) {
  extern __shared__ __align__(1024) unsigned char swizzled_shared[];
  const ForwardSm90<kConfig> kernel(
      params, static_cast<unsigned>(__cvta_generic_to_shared(swizzled_shared)));
  if (!kernel.has_rows()) return;
  if (threadIdx.x == 0) kernel.initialise_barriers();
  __syncthreads();
  const unsigned warp = ptx::warp_uniform(threadIdx.x / 32);
  if (warp < 4) {
    if constexpr (kConfig.exchanges_registers()) {
      ptx::decrease_registers<kConfig.producer_registers()>();
    }
    if (kernel.tiles.begin < kernel.tiles.end) {
      if (warp > 0) {
        kernel.clear_rows_beyond();
      } else if (ptx::elect_one()) {
        kernel.load_tiles();
      }
    }
  } else {
    if constexpr (kConfig.exchanges_registers()) {
      ptx::increase_registers<kConfig.consumer_registers()>();
    }
    kernel.compute();
  }
}

}  // namespace tilewright::attention
