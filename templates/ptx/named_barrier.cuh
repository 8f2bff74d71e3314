// Named barriers: barriers of some warps of a block, 16 of them; __syncthreads uses number 0.
// kThreads counts all threads that arrive, syncing or not, and is a multiple of 32.
#pragma once

namespace tilewright::ptx {

// PTX ISA, barrier.sync.aligned (bar.sync).
template <int kThreads>
__device__ __forceinline__ void named_barrier_sync(int barrier) {
  static_assert(kThreads % 32 == 0, "barriers count whole warps");
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

// PTX ISA, barrier.arrive.aligned (bar.arrive): counts this warp and does not wait.
template <int kThreads>
__device__ __forceinline__ void named_barrier_arrive(int barrier) {
  static_assert(kThreads % 32 == 0, "barriers count whole warps");
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

}  // namespace tilewright::ptx
