// Bulk copies: one thread starts a copy of many contiguous bytes that runs in the async proxy.
// Copies to shared memory report their bytes to an mbarrier; copies and reductions to global memory
// belong to bulk groups of the thread that started them, which complete in any order but are waited
// for in order. Addresses and sizes are multiples of 16.
//
// Who wrote the source of a copy to global memory with ordinary stores must execute
// fence_proxy_async (fence.cuh) before the barrier that lets the copy start.
#pragma once

namespace tilewright::ptx {

// What the L2 cache keeps (operand of .L2::cache_hint). The encodings are those that createpolicy
// yields for a fractional policy of 1.0.
enum class CachePolicy : unsigned long long {
  kEvictNormal = 0x1000000000000000,
  kEvictFirst = 0x12F0000000000000,
  kEvictLast = 0x14F0000000000000,
};

// PTX ISA, cp.async.bulk (sm_90), global to the shared memory of the own block.
__device__ __forceinline__ void bulk_load(unsigned shared_address, const void* global,
                                          unsigned bytes, unsigned barrier,
                                          CachePolicy policy = CachePolicy::kEvictNormal) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address),
      "l"(global), "r"(bytes), "r"(barrier), "l"(static_cast<unsigned long long>(policy))
      : "memory");
}

// To the blocks of the cluster whose bit is set in `blocks`: data and bytes reported arrive at the
// same offsets in each of them.
__device__ __forceinline__ void bulk_load_multicast(
    unsigned shared_address, const void* global, unsigned bytes, unsigned barrier,
    unsigned short blocks, CachePolicy policy = CachePolicy::kEvictNormal) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1], %2, [%3], %4, %5;" ::"r"(shared_address),
      "l"(global), "r"(bytes), "r"(barrier), "h"(blocks),
      "l"(static_cast<unsigned long long>(policy))
      : "memory");
}

// PTX ISA, cp.async.bulk (sm_90), shared to global.
__device__ __forceinline__ void bulk_store(void* global, unsigned shared_address, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(shared_address), "r"(bytes)
               : "memory");
}

// PTX ISA, cp.reduce.async.bulk (sm_90): global[i] += shared[i], each element atomically.
__device__ __forceinline__ void bulk_reduce_add_f32(float* global, unsigned shared_address,
                                                    unsigned bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(global),
      "r"(shared_address), "r"(bytes)
      : "memory");
}

// PTX ISA, cp.async.bulk.commit_group: what this thread started since the last one is a group.
__device__ __forceinline__ void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// PTX ISA, cp.async.bulk.wait_group: until at most kPending of the newest groups of this thread
// remain; what the others wrote is then visible to this thread.
template <int kPending>
__device__ __forceinline__ void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

// Until the sources of all but kPending groups have been read and may be overwritten. Says nothing
// of what arrived in global memory.
template <int kPending>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

}  // namespace tilewright::ptx
