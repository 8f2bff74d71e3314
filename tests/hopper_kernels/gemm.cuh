// C = A·Bᵀ or C += A·Bᵀ on wgmma, warp-specialised, persistent over tiles.
//
// Warpgroup 0 loads: one elected thread fills a ring of slots, each a tile of A and one of B, by
// tensor copies with the 128-byte swizzle. The others compute, 64 rows of C each, with one group of
// wgmmas running while the next slot is awaited. With a cluster of two, the blocks compute tiles
// one under the other and share B: each loads half of its rows and multicasts them to both.
// Who waits for whom: `full` of a slot waits for the producer's arrival and all bytes of the slot;
// `empty` for every warp of every consumer in the cluster, as all of them read what the producer
// overwrites next.
//
// Shared memory: slots { A | B } · staging of each consumer · full barriers · empty barriers.
#pragma once

#include "attention/ring.cuh"
#include "ptx/cluster.cuh"
#include "ptx/convert.cuh"
#include "ptx/fence.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/tensor_copy.cuh"
#include "ptx/warp.cuh"
#include "ptx/warpgroup.cuh"
#include "ptx/wgmma_descriptor.cuh"
#include "ptx/wgmma_shared.cuh"
#include "tests/hopper_kernels/gemm_config.h"

namespace tilewright::hopper_kernels {

template <GemmConfig kConfig>
struct Gemm {
  static_assert(kConfig.tile_n % (8 * kConfig.cluster) == 0 && kConfig.tile_n <= 256);
  static_assert(kConfig.cluster == 1 || kConfig.cluster == 2);

  using Accumulators = float[kConfig.tile_n / 2];
  using Position = attention::RingPosition<kConfig.stages>;

  struct Tile {
    int row, column, k_begin, k_end;  // k in tiles of tile_k
  };

  const GemmParams& params;
  unsigned shared;
  unsigned rank;  // in the cluster

  __device__ __forceinline__ unsigned a_tile(int slot) const {
    return shared + static_cast<unsigned>(slot * kConfig.stage_bytes());
  }
  __device__ __forceinline__ unsigned b_tile(int slot) const {
    return a_tile(slot) + kConfig.a_bytes();
  }
  __device__ __forceinline__ unsigned full(int slot) const {
    return shared + kConfig.barrier_offset() + static_cast<unsigned>(slot * 8);
  }
  __device__ __forceinline__ unsigned empty(int slot) const {
    return full(slot) + kConfig.stages * 8;
  }

  // Tile `index` of this block's cluster; each block of it has rows of its own.
  __device__ __forceinline__ Tile tile(int index) const {
    const int rows = kConfig.tile_m() * kConfig.cluster;
    const int column_tiles = (params.n + kConfig.tile_n - 1) / kConfig.tile_n;
    const int k_tiles = (params.k + kConfig.tile_k() - 1) / kConfig.tile_k();
    const int split = index % params.num_splits;
    const int place = index / params.num_splits;
    return {place / column_tiles * rows + static_cast<int>(rank) * kConfig.tile_m(),
            place % column_tiles * kConfig.tile_n, split * k_tiles / params.num_splits,
            (split + 1) * k_tiles / params.num_splits};
  }
  __device__ __forceinline__ int num_tiles() const {
    const int rows = kConfig.tile_m() * kConfig.cluster;
    return (params.m + rows - 1) / rows * ((params.n + kConfig.tile_n - 1) / kConfig.tile_n) *
           params.num_splits;
  }
  __device__ __forceinline__ static int first_tile() {
    return static_cast<int>(ptx::block_index()) / kConfig.cluster;
  }
  __device__ __forceinline__ static int tile_step() {
    return static_cast<int>(gridDim.x) / kConfig.cluster;
  }

  __device__ __forceinline__ void initialise_barriers() const {
    for (int slot = 0; slot < kConfig.stages; ++slot) {
      ptx::mbarrier_init(full(slot), 1);
      ptx::mbarrier_init(empty(slot), 4 * kConfig.consumers * kConfig.cluster);
    }
    ptx::fence_mbarrier_init();
  }

  __device__ __forceinline__ static void wait(unsigned barrier, unsigned parity) {
    if constexpr (kConfig.cluster > 1) {
      ptx::mbarrier_wait_cluster(barrier, parity);
    } else {
      ptx::mbarrier_wait(barrier, parity);
    }
  }

  // One thread: every slot of every tile of this block.
  __device__ __forceinline__ void load_tiles() const {
    ptx::tensor_map_prefetch(&params.a);
    ptx::tensor_map_prefetch(&params.b);
    Position position;
    for (int index = first_tile(); index < num_tiles(); index += tile_step()) {
      const Tile t = tile(index);
#pragma unroll 1
      for (int k = t.k_begin; k < t.k_end; ++k, position.advance()) {
        const int slot = position.slot;
        wait(empty(slot), position.phase ^ 1);
        ptx::mbarrier_arrive_expect_tx(full(slot), kConfig.stage_bytes());
        ptx::tensor_load(a_tile(slot), &params.a, full(slot), {k * kConfig.tile_k(), t.row});
        if constexpr (kConfig.cluster > 1) {
          const int rows = kConfig.tile_n / kConfig.cluster * static_cast<int>(rank);
          ptx::tensor_load_multicast(b_tile(slot) + static_cast<unsigned>(rows * 128), &params.b,
                                     full(slot), (1u << kConfig.cluster) - 1,
                                     {k * kConfig.tile_k(), t.column + rows});
        } else {
          ptx::tensor_load(b_tile(slot), &params.b, full(slot), {k * kConfig.tile_k(), t.column});
        }
      }
    }
  }

  // This warp no longer reads the slot: tells every block that writes to it.
  __device__ __forceinline__ void release(int slot) const {
    if (!ptx::elect_one()) return;
    if constexpr (kConfig.cluster > 1) {
      for (unsigned block = 0; block < kConfig.cluster; ++block) {
        ptx::mbarrier_arrive_cluster(empty(slot), block);
      }
    } else {
      ptx::mbarrier_arrive(empty(slot));
    }
  }

  // d = the products of one slot, added to d if `accumulate`; leaves them running.
  __device__ __forceinline__ void start_products(Accumulators& d, int slot, int consumer,
                                                 bool accumulate) const {
    constexpr ptx::WgmmaInput kInput =
        kConfig.bfloat16 ? ptx::WgmmaInput::kBF16 : ptx::WgmmaInput::kF16;
    const auto a =
        ptx::k_major_descriptor<128>(a_tile(slot) + static_cast<unsigned>(consumer) * 8192);
    const auto b = ptx::k_major_descriptor<128>(b_tile(slot));
    ptx::wgmma_fence();
#pragma unroll
    for (unsigned step = 0; step < kConfig.tile_k() / 16; ++step) {
      ptx::wgmma<kInput>(d, ptx::descriptor_advance(a, 32 * step),
                         ptx::descriptor_advance(b, 32 * step), accumulate || step > 0);
    }
    ptx::wgmma_commit();
  }

  // d = the tile's product, 0 where it has no k.
  __device__ __forceinline__ void compute_tile(Accumulators& d, const Tile& t, int consumer,
                                               Position& position) const {
    for (float& each : d) each = 0;
    ptx::register_fence(d);
    int previous = -1;
#pragma unroll 1
    for (int k = t.k_begin; k < t.k_end; ++k, position.advance()) {
      wait(full(position.slot), position.phase);
      start_products(d, position.slot, consumer, true);
      if (previous >= 0) {
        ptx::wgmma_wait<1>();
        release(previous);
      }
      previous = position.slot;
    }
    ptx::wgmma_wait<0>();
    ptx::register_fence(d);
    if (previous >= 0) release(previous);
  }

  __device__ __forceinline__ void store(const Accumulators& d, const Tile& t, int consumer,
                                        int thread) const {
    const int row = t.row + consumer * 64 + thread / 32 * 16 + thread % 32 / 4;
    const int column = t.column + thread % 4 * 2;
#pragma unroll
    for (int i = 0; i < kConfig.tile_n / 2; ++i) {
      const int r = row + i / 2 % 2 * 8;
      const int c = column + i / 4 * 8 + i % 2;
      if (r < params.m && c < params.n) {
        params.out[static_cast<long long>(r) * params.out_pitch + c] = d[i];
      }
    }
  }

  // The warpgroup's staging: boxes of 64 lines of 128 bytes, swizzled as the map of C says.
  __device__ __forceinline__ void stage(const Accumulators& d, unsigned staging, int thread) const {
    const int lane = thread % 32;
    if constexpr (kConfig.epilogue == Epilogue::kReduceFull) {
      const int row = thread / 32 * 16 + lane / 4;
#pragma unroll
      for (int i = 0; i < kConfig.tile_n / 2; i += 2) {
        const int r = row + i / 2 % 2 * 8;
        const int c = i / 4 * 8 + lane % 4 * 2;
        const int offset = c / 32 * 8192 + r * 128 + (c % 32 * 4 ^ r % 8 * 16);
        auto* to =
            static_cast<float*>(__cvta_shared_to_generic(staging + static_cast<unsigned>(offset)));
        to[0] = d[i];
        to[1] = d[i + 1];
      }
    } else {
      const int r = thread / 32 * 16 + lane % 16;
#pragma unroll
      for (int i = 0; i < kConfig.tile_n / 2; i += 8) {
        unsigned words[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          words[j] = kConfig.bfloat16 ? ptx::pack_bf16x2(d[i + 2 * j], d[i + 2 * j + 1])
                                      : ptx::pack_f16x2(d[i + 2 * j], d[i + 2 * j + 1]);
        }
        const int chunk = i / 8 * 2 + lane / 16;
        const int offset = chunk / 8 * 8192 + r * 128 + (chunk % 8 ^ r % 8) * 16;
        ptx::stmatrix_x4(staging + static_cast<unsigned>(offset), words);
      }
    }
  }

  __device__ __forceinline__ void reduce(const Accumulators& d, const Tile& t, int consumer,
                                         int thread) const {
    const unsigned staging = shared + kConfig.staging_offset() +
                             static_cast<unsigned>(consumer * kConfig.staging_bytes());
    const bool issues = thread < 32 && ptx::elect_one();
    // The reductions of the tile before have read the staging.
    if (issues) ptx::bulk_wait_read<0>();
    ptx::named_barrier_sync<128>(1 + consumer);
    stage(d, staging, thread);
    ptx::fence_proxy_async_shared();
    ptx::named_barrier_sync<128>(1 + consumer);
    if (issues) {
      constexpr int kBoxColumns = kConfig.tile_n / kConfig.boxes();
      for (int box = 0; box < kConfig.boxes(); ++box) {
        ptx::tensor_reduce_add(&params.c, staging + static_cast<unsigned>(box * 8192),
                               {t.column + box * kBoxColumns, t.row + consumer * 64});
      }
      ptx::bulk_commit();
    }
  }

  __device__ __forceinline__ void compute_tiles(int consumer, int thread) const {
    Position position;
    for (int index = first_tile(); index < num_tiles(); index += tile_step()) {
      const Tile t = tile(index);
      Accumulators d;
      compute_tile(d, t, consumer, position);
      if constexpr (kConfig.epilogue == Epilogue::kStore) {
        store(d, t, consumer, thread);
      } else {
        reduce(d, t, consumer, thread);
      }
    }
    // Shared memory must outlive the reads of it.
    if constexpr (kConfig.epilogue != Epilogue::kStore) {
      if (thread < 32 && ptx::elect_one()) ptx::bulk_wait_read<0>();
    }
  }
};

template <GemmConfig kConfig>
__device__ __forceinline__ void gemm(const GemmParams& params) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const Gemm<kConfig> kernel = {params, static_cast<unsigned>(__cvta_generic_to_shared(shared)),
                                kConfig.cluster > 1 ? ptx::cluster_block_rank() : 0};
  const int warp = static_cast<int>(ptx::warp_uniform(threadIdx.x / 32));
  if (threadIdx.x == 0) kernel.initialise_barriers();
  if constexpr (kConfig.cluster > 1) {
    ptx::cluster_sync();
  } else {
    __syncthreads();
  }
  if (warp < 4) {
    ptx::decrease_registers<kConfig.producer_registers()>();
    if (warp == 0 && ptx::elect_one()) kernel.load_tiles();
  } else {
    ptx::increase_registers<kConfig.consumer_registers()>();
    kernel.compute_tiles(warp / 4 - 1, static_cast<int>(threadIdx.x) % 128);
  }
  // No block leaves while another may write into it or arrive at its barriers.
  if constexpr (kConfig.cluster > 1) {
    __syncwarp();
    ptx::cluster_sync();
  }
}

}  // namespace tilewright::hopper_kernels
