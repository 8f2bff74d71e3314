// Tensor copies: bulk copies of boxes of a tensor that a tensor map describes (base, extents,
// strides, box, swizzle). The map is a generic address: of a __grid_constant__ parameter, or of
// constant or global memory. Coordinates are those of the box's first element, innermost first; a
// call names as many as the tensor has dimensions: tensor_load(to, map, barrier, {column, row}).
//
// Shared memory holds the box densely, innermost dimension fastest, its 16-byte chunks permuted by
// the map's swizzle on absolute addresses: align tiles to 1024 bytes. Loads fill what lies outside
// the tensor and still report the bytes of a whole box; stores and reductions leave it out.
// Groups and proxies: bulk_copy.cuh.
#pragma once

#include "ptx/bulk_copy.cuh"

namespace tilewright::ptx {

// PTX ISA, cp.async.bulk.tensor (sm_90), global to the shared memory of the own block.
template <int kRank>
__device__ __forceinline__ void tensor_load(unsigned shared_address, const void* map,
                                            unsigned barrier, const int (&c)[kRank],
                                            CachePolicy policy = CachePolicy::kEvictNormal) {
  static_assert(kRank >= 1 && kRank <= 5, "tensors have 1 to 5 dimensions");
  if constexpr (kRank == 1) {
    asm volatile(
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_"
        "hint [%0], [%1, {%4}], [%2], %3;" ::"r"(shared_address),
        "l"(map), "r"(barrier), "l"(static_cast<unsigned long long>(policy)), "r"(c[0])
        : "memory");
  } else if constexpr (kRank == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_"
        "hint [%0], [%1, {%4, %5}], [%2], %3;" ::"r"(shared_address),
        "l"(map), "r"(barrier), "l"(static_cast<unsigned long long>(policy)), "r"(c[0]), "r"(c[1])
        : "memory");
  } else if constexpr (kRank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_"
        "hint [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared_address),
        "l"(map), "r"(barrier), "l"(static_cast<unsigned long long>(policy)), "r"(c[0]), "r"(c[1]),
        "r"(c[2])
        : "memory");
  } else if constexpr (kRank == 4) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_"
        "hint [%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(shared_address),
        "l"(map), "r"(barrier), "l"(static_cast<unsigned long long>(policy)), "r"(c[0]), "r"(c[1]),
        "r"(c[2]), "r"(c[3])
        : "memory");
  } else if constexpr (kRank == 5) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_"
        "hint [%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(shared_address),
        "l"(map), "r"(barrier), "l"(static_cast<unsigned long long>(policy)), "r"(c[0]), "r"(c[1]),
        "r"(c[2]), "r"(c[3]), "r"(c[4])
        : "memory");
  }
}

// To the blocks of the cluster whose bit is set in `blocks`: box and bytes reported arrive at the
// same offsets in each of them.
template <int kRank>
__device__ __forceinline__ void tensor_load_multicast(
    unsigned shared_address, const void* map, unsigned barrier, unsigned short blocks,
    const int (&c)[kRank], CachePolicy policy = CachePolicy::kEvictNormal) {
  static_assert(kRank >= 1 && kRank <= 5, "tensors have 1 to 5 dimensions");
  if constexpr (kRank == 1) {
    asm volatile(
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
        "cluster.L2::cache_hint [%0], [%1, {%5}], [%2], %3, %4;" ::"r"(shared_address),
        "l"(map), "r"(barrier), "h"(blocks), "l"(static_cast<unsigned long long>(policy)), "r"(c[0])
        : "memory");
  } else if constexpr (kRank == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
        "cluster.L2::cache_hint [%0], [%1, {%5, %6}], [%2], %3, %4;" ::"r"(shared_address),
        "l"(map), "r"(barrier), "h"(blocks), "l"(static_cast<unsigned long long>(policy)),
        "r"(c[0]), "r"(c[1])
        : "memory");
  } else if constexpr (kRank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
        "cluster.L2::cache_hint [%0], [%1, {%5, %6, %7}], [%2], %3, %4;" ::"r"(shared_address),
        "l"(map), "r"(barrier), "h"(blocks), "l"(static_cast<unsigned long long>(policy)),
        "r"(c[0]), "r"(c[1]), "r"(c[2])
        : "memory");
  } else if constexpr (kRank == 4) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
        "cluster.L2::cache_hint [%0], [%1, {%5, %6, %7, %8}], [%2], %3, %4;" ::"r"(shared_address),
        "l"(map), "r"(barrier), "h"(blocks), "l"(static_cast<unsigned long long>(policy)),
        "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])
        : "memory");
  } else if constexpr (kRank == 5) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
        "cluster.L2::cache_hint [%0], [%1, {%5, %6, %7, %8, %9}], [%2], %3, %4;" ::"r"(
            shared_address),
        "l"(map), "r"(barrier), "h"(blocks), "l"(static_cast<unsigned long long>(policy)),
        "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])
        : "memory");
  }
}

// PTX ISA, cp.async.bulk.tensor (sm_90), shared to global. Coordinates not negative.
template <int kRank>
__device__ __forceinline__ void tensor_store(const void* map, unsigned shared_address,
                                             const int (&c)[kRank]) {
  static_assert(kRank >= 1 && kRank <= 5, "tensors have 1 to 5 dimensions");
  if constexpr (kRank == 1) {
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%1, {%2}], [%0];" ::"r"(
                     shared_address),
                 "l"(map), "r"(c[0])
                 : "memory");
  } else if constexpr (kRank == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%1, {%2, %3}], [%0];" ::"r"(
            shared_address),
        "l"(map), "r"(c[0]), "r"(c[1])
        : "memory");
  } else if constexpr (kRank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(
            shared_address),
        "l"(map), "r"(c[0]), "r"(c[1]), "r"(c[2])
        : "memory");
  } else if constexpr (kRank == 4) {
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%1, {%2, %3, %4, %5}], [%0];" ::"r"(
            shared_address),
        "l"(map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])
        : "memory");
  } else if constexpr (kRank == 5) {
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%1, {%2, %3, %4, %5, %6}], [%0];" ::
            "r"(shared_address),
        "l"(map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])
        : "memory");
  }
}

// PTX ISA, cp.reduce.async.bulk.tensor (sm_90): adds the box to the tensor, each element
// atomically, in the map's type.
template <int kRank>
__device__ __forceinline__ void tensor_reduce_add(const void* map, unsigned shared_address,
                                                  const int (&c)[kRank]) {
  static_assert(kRank >= 1 && kRank <= 5, "tensors have 1 to 5 dimensions");
  if constexpr (kRank == 1) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [%1, {%2}], [%0];" ::"r"(
            shared_address),
        "l"(map), "r"(c[0])
        : "memory");
  } else if constexpr (kRank == 2) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%1, {%2, %3}], [%0];" ::
            "r"(shared_address),
        "l"(map), "r"(c[0]), "r"(c[1])
        : "memory");
  } else if constexpr (kRank == 3) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group [%1, {%2, %3, %4}], "
        "[%0];" ::"r"(shared_address),
        "l"(map), "r"(c[0]), "r"(c[1]), "r"(c[2])
        : "memory");
  } else if constexpr (kRank == 4) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.bulk_group [%1, {%2, %3, %4, %5}], "
        "[%0];" ::"r"(shared_address),
        "l"(map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])
        : "memory");
  } else if constexpr (kRank == 5) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.bulk_group [%1, {%2, %3, %4, %5, "
        "%6}], [%0];" ::"r"(shared_address),
        "l"(map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])
        : "memory");
  }
}

// PTX ISA, cp.async.bulk.prefetch.tensor (sm_90): into L2.
template <int kRank>
__device__ __forceinline__ void tensor_prefetch(const void* map, const int (&c)[kRank]) {
  static_assert(kRank >= 1 && kRank <= 5, "tensors have 1 to 5 dimensions");
  if constexpr (kRank == 1) {
    asm volatile("cp.async.bulk.prefetch.tensor.1d.L2.global [%0, {%1}];" ::"l"(map), "r"(c[0])
                 : "memory");
  } else if constexpr (kRank == 2) {
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(map), "r"(c[0]),
                 "r"(c[1])
                 : "memory");
  } else if constexpr (kRank == 3) {
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(map),
                 "r"(c[0]), "r"(c[1]), "r"(c[2])
                 : "memory");
  } else if constexpr (kRank == 4) {
    asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global [%0, {%1, %2, %3, %4}];" ::"l"(map),
                 "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])
                 : "memory");
  } else if constexpr (kRank == 5) {
    asm volatile(
        "cp.async.bulk.prefetch.tensor.5d.L2.global [%0, {%1, %2, %3, %4, %5}];" ::"l"(map),
        "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])
        : "memory");
  }
}

// PTX ISA, prefetch.tensormap (sm_90): the map itself into the descriptor cache.
__device__ __forceinline__ void tensor_map_prefetch(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

}  // namespace tilewright::ptx
