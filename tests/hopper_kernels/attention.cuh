// Forward attention, warp-specialised: what a Hopper kernel of this kind has, without masks.
//
// Warpgroup 0 loads Q once, and K and V into two rings. Each of the others computes 64 queries. In
// one step it starts S = Q·Kᵀ of the next tile, then O += P·V of the current one, waits for S only,
// applies softmax to it under the running P·V, and then waits for that. P goes from the layout of
// an accumulator to that of an A operand within a thread. The two take turns in starting products
// (named barriers 2 and 3), so that one's softmax runs under the other's products.
// Who waits for whom: `full` barriers wait for the producer's arrival and all bytes, `empty` ones
// for the eight consumer warps; V of a step is released a step later than its K.
//
// Shared memory: Q, where O goes in the end · K slots · V slots · barriers.
#pragma once

#include "attention/ring.cuh"
#include "ptx/convert.cuh"
#include "ptx/fence.cuh"
#include "ptx/math.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/tensor_copy.cuh"
#include "ptx/warp.cuh"
#include "ptx/warpgroup.cuh"
#include "ptx/wgmma_descriptor.cuh"
#include "ptx/wgmma_registers.cuh"
#include "ptx/wgmma_shared.cuh"
#include "tests/hopper_kernels/attention_config.h"

namespace tilewright::hopper_kernels {

template <AttentionConfig kConfig>
struct Attention {
  static_assert(kConfig.head_dim % 64 == 0 && kConfig.tile_n % 16 == 0);

  using Position = attention::RingPosition<kConfig.stages>;
  using Scores = float[kConfig.tile_n / 2];
  using Probabilities = unsigned[kConfig.tile_n / 16][4];
  using Output = float[kConfig.head_dim / 2];
  static constexpr ptx::WgmmaInput input() {
    return kConfig.bfloat16 ? ptx::WgmmaInput::kBF16 : ptx::WgmmaInput::kF16;
  }
  // Two rows of S a thread: elements with i / 2 even and odd.
  struct Statistics {
    float maximum[2];
    float sum[2];
  };

  const AttentionParams& params;
  unsigned shared;
  int head;
  int first_query;

  __device__ __forceinline__ unsigned k_tile(int slot) const {
    return shared + kConfig.k_offset() + static_cast<unsigned>(slot * kConfig.kv_bytes());
  }
  __device__ __forceinline__ unsigned v_tile(int slot) const {
    return shared + kConfig.v_offset() + static_cast<unsigned>(slot * kConfig.kv_bytes());
  }
  __device__ __forceinline__ unsigned q_full() const { return shared + kConfig.barrier_offset(); }
  __device__ __forceinline__ unsigned k_full(int slot) const {
    return q_full() + 8 + static_cast<unsigned>(slot * 32);
  }
  __device__ __forceinline__ unsigned k_empty(int slot) const { return k_full(slot) + 8; }
  __device__ __forceinline__ unsigned v_full(int slot) const { return k_full(slot) + 16; }
  __device__ __forceinline__ unsigned v_empty(int slot) const { return k_full(slot) + 24; }

  __device__ __forceinline__ int num_tiles() const {
    return (params.seqlen_k + kConfig.tile_n - 1) / kConfig.tile_n;
  }

  __device__ __forceinline__ void initialise_barriers() const {
    ptx::mbarrier_init(q_full(), 1);
    for (int slot = 0; slot < kConfig.stages; ++slot) {
      ptx::mbarrier_init(k_full(slot), 1);
      ptx::mbarrier_init(k_empty(slot), 4 * kConfig.consumers());
      ptx::mbarrier_init(v_full(slot), 1);
      ptx::mbarrier_init(v_empty(slot), 4 * kConfig.consumers());
    }
    ptx::fence_mbarrier_init();
  }

  template <int kRows>
  __device__ __forceinline__ void load(unsigned to, const TensorMap& map, unsigned barrier,
                                       int row) const {
    ptx::mbarrier_arrive_expect_tx(barrier, kRows * kConfig.head_dim * 2);
    for (int column = 0; column < kConfig.columns(); ++column) {
      ptx::tensor_load(to + static_cast<unsigned>(column * kRows * 128), &map, barrier,
                       {column * 64, row, head});
    }
  }

  // One thread. Tiles go from the last to the first: the ragged one comes first.
  __device__ __forceinline__ void load_tiles() const {
    load<kConfig.tile_m()>(shared, params.q, q_full(), first_query);
    Position position;
#pragma unroll 1
    for (int tile = num_tiles() - 1; tile >= 0; --tile, position.advance()) {
      const int slot = position.slot;
      ptx::mbarrier_wait(k_empty(slot), position.phase ^ 1);
      load<kConfig.tile_n>(k_tile(slot), params.k, k_full(slot), tile * kConfig.tile_n);
      ptx::mbarrier_wait(v_empty(slot), position.phase ^ 1);
      load<kConfig.tile_n>(v_tile(slot), params.v, v_full(slot), tile * kConfig.tile_n);
    }
  }

  __device__ __forceinline__ static void release(unsigned empty) {
    if (ptx::elect_one()) ptx::mbarrier_arrive(empty);
  }

  // s = Q·Kᵀ, started.
  __device__ __forceinline__ void start_scores(Scores& s, int slot, int consumer) const {
    ptx::register_fence(s);
    ptx::wgmma_fence();
#pragma unroll
    for (unsigned step = 0; step < kConfig.head_dim / 16; ++step) {
      const unsigned column = step / 4, within = step % 4 * 32;
      const auto q = ptx::k_major_descriptor<128>(shared + static_cast<unsigned>(consumer) * 8192 +
                                                  column * kConfig.tile_m() * 128);
      const auto k = ptx::k_major_descriptor<128>(k_tile(slot) + column * kConfig.tile_n * 128);
      ptx::wgmma<input()>(s, ptx::descriptor_advance(q, within), ptx::descriptor_advance(k, within),
                          step > 0);
    }
    ptx::wgmma_commit();
  }

  // out += P·V, started.
  __device__ __forceinline__ void start_output(Output& out, Probabilities& p, int slot) const {
    ptx::register_fence(out);
    ptx::register_fence(p);
    ptx::wgmma_fence();
    const auto v = ptx::mn_major_descriptor<128>(v_tile(slot), kConfig.tile_n * 128);
#pragma unroll
    for (unsigned step = 0; step < kConfig.tile_n / 16; ++step) {
      ptx::wgmma<input(), ptx::Major::kMN>(out, p[step], ptx::descriptor_advance(v, step * 2048),
                                           1);
    }
    ptx::wgmma_commit();
  }

  __device__ __forceinline__ void mask(Scores& s, int tile, int thread) const {
    const int keys_left = params.seqlen_k - tile * kConfig.tile_n - thread % 4 * 2;
#pragma unroll
    for (int i = 0; i < kConfig.tile_n / 2; ++i) {
      if (i / 4 * 8 + i % 2 >= keys_left) s[i] = __builtin_bit_cast(float, 0xff800000);
    }
  }

  // s becomes exp2(scaled s − maximum); rescale: what older sums and outputs are multiplied by.
  // Every row of every tile has a key, so the maximum is finite.
  __device__ __forceinline__ void softmax(Scores& s, Statistics& statistics,
                                          float (&rescale)[2]) const {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float maximum = statistics.maximum[row];
#pragma unroll
      for (int i = row * 2; i < kConfig.tile_n / 2; i += 4) {
        maximum = fmaxf(maximum, fmaxf(s[i], s[i + 1]));
      }
      maximum = fmaxf(maximum, ptx::shuffle_xor<1>(maximum));
      maximum = fmaxf(maximum, ptx::shuffle_xor<2>(maximum));
      rescale[row] = ptx::exp2_approx((statistics.maximum[row] - maximum) * params.scale_log2);
      statistics.maximum[row] = maximum;
      const float shift = maximum * params.scale_log2;
      float sum = 0;
#pragma unroll
      for (int i = row * 2; i < kConfig.tile_n / 2; i += 4) {
        s[i] = ptx::exp2_approx(s[i] * params.scale_log2 - shift);
        s[i + 1] = ptx::exp2_approx(s[i + 1] * params.scale_log2 - shift);
        sum += s[i] + s[i + 1];
      }
      statistics.sum[row] = statistics.sum[row] * rescale[row] + sum;
    }
  }

  __device__ __forceinline__ static unsigned pack(float low, float high) {
    return kConfig.bfloat16 ? ptx::pack_bf16x2(low, high) : ptx::pack_f16x2(low, high);
  }

  __device__ __forceinline__ static void convert(Probabilities& p, const Scores& s) {
#pragma unroll
    for (int step = 0; step < kConfig.tile_n / 16; ++step) {
#pragma unroll
      for (int r = 0; r < 4; ++r) p[step][r] = pack(s[step * 8 + 2 * r], s[step * 8 + 2 * r + 1]);
    }
  }

  // The consumers start products in turns: barrier 2 + c is consumer c's turn.
  __device__ __forceinline__ static void await_turn(int consumer) {
    ptx::named_barrier_sync<256>(2 + consumer);
  }
  __device__ __forceinline__ static void give_turn(int consumer) {
    ptx::named_barrier_arrive<256>(3 - consumer);
  }

  __device__ __forceinline__ void compute(Output& out, Statistics& statistics, int consumer,
                                          int thread) const {
    Scores s;
    Probabilities p;
    float rescale[2];
    Position position;
    if (consumer == 1) give_turn(1);  // consumer 0 begins
    ptx::mbarrier_wait(q_full(), 0);
    ptx::mbarrier_wait(k_full(0), 0);
    await_turn(consumer);
    start_scores(s, 0, consumer);
    give_turn(consumer);
    ptx::wgmma_wait<0>();
    ptx::register_fence(s);
    release(k_empty(0));
    mask(s, num_tiles() - 1, thread);
    softmax(s, statistics, rescale);
    convert(p, s);
#pragma unroll 1
    for (int tile = num_tiles() - 2; tile >= 0; --tile) {
      const Position current = position;
      position.advance();
      ptx::mbarrier_wait(k_full(position.slot), position.phase);
      await_turn(consumer);
      start_scores(s, position.slot, consumer);
      ptx::mbarrier_wait(v_full(current.slot), current.phase);
      start_output(out, p, current.slot);
      give_turn(consumer);
      ptx::wgmma_wait<1>();
      ptx::register_fence(s);
      release(k_empty(position.slot));
      softmax(s, statistics, rescale);
      ptx::wgmma_wait<0>();
      ptx::register_fence(out);
      ptx::register_fence(p);
      release(v_empty(current.slot));
#pragma unroll
      for (int i = 0; i < kConfig.head_dim / 2; ++i) out[i] *= rescale[i / 2 % 2];
      convert(p, s);
    }
    ptx::mbarrier_wait(v_full(position.slot), position.phase);
    await_turn(consumer);
    start_output(out, p, position.slot);
    if (consumer == 0) give_turn(0);  // consumer 1 ends
    ptx::wgmma_wait<0>();
    ptx::register_fence(out);
  }

  // Over the warpgroup's own rows of Q, which nobody reads any more.
  __device__ __forceinline__ void store(const Output& out, const Statistics& statistics,
                                        int consumer, int thread) const {
    float inverse[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float sum = statistics.sum[row];
      sum += ptx::shuffle_xor<1>(sum);
      sum += ptx::shuffle_xor<2>(sum);
      inverse[row] = ptx::reciprocal_approx(sum);
    }
    const int lane = thread % 32;
    const int row = thread / 32 * 16 + lane % 16;
    const unsigned tile = shared + static_cast<unsigned>(consumer) * 8192;
#pragma unroll
    for (int i = 0; i < kConfig.head_dim / 2; i += 8) {
      unsigned words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        words[j] = pack(out[i + 2 * j] * inverse[j % 2], out[i + 2 * j + 1] * inverse[j % 2]);
      }
      const int chunk = i / 8 * 2 + lane / 16;
      const int offset =
          chunk / 8 * kConfig.tile_m() * 128 + row * 128 + (chunk % 8 ^ row % 8) * 16;
      ptx::stmatrix_x4(tile + static_cast<unsigned>(offset), words);
    }
    ptx::fence_proxy_async_shared();
    ptx::named_barrier_sync<128>(4 + consumer);
    if (thread < 32 && ptx::elect_one()) {
      for (int column = 0; column < kConfig.columns(); ++column) {
        ptx::tensor_store(&params.out,
                          tile + static_cast<unsigned>(column * kConfig.tile_m() * 128),
                          {column * 64, first_query + consumer * 64, head});
      }
      ptx::bulk_commit();
      ptx::bulk_wait_read<0>();  // shared memory must outlive the reads of it
    }
  }
};

template <AttentionConfig kConfig>
__device__ __forceinline__ void attention(const AttentionParams& params) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const Attention<kConfig> kernel = {
      params, static_cast<unsigned>(__cvta_generic_to_shared(shared)), static_cast<int>(blockIdx.y),
      static_cast<int>(ptx::block_index()) * kConfig.tile_m()};
  const int warp = static_cast<int>(ptx::warp_uniform(threadIdx.x / 32));
  if (threadIdx.x == 0) kernel.initialise_barriers();
  __syncthreads();
  if (warp < 4) {
    ptx::decrease_registers<24>();
    if (warp == 0 && ptx::elect_one()) kernel.load_tiles();
  } else {
    ptx::increase_registers<240>();
    const int consumer = warp / 4 - 1;
    const int thread = static_cast<int>(threadIdx.x) % 128;
    typename Attention<kConfig>::Output out = {};
    typename Attention<kConfig>::Statistics statistics = {};
    statistics.maximum[0] = statistics.maximum[1] = __builtin_bit_cast(float, 0xff800000);
    kernel.compute(out, statistics, consumer, thread);
    kernel.store(out, statistics, consumer, thread);
  }
}

}  // namespace tilewright::hopper_kernels
