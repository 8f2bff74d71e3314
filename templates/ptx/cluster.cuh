// Clusters: blocks that run at the same time and reach each other's shared memory.
#pragma once

namespace tilewright::ptx {

// %cluster_ctarank (sm_90): this block's number in its cluster, 0 without one.
__device__ __forceinline__ unsigned cluster_block_rank() {
  unsigned result;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(result));
  return result;
}

// PTX ISA, barrier.cluster.arrive (sm_90), release: every thread of the cluster, once, then wait.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

// Orders nothing: for a barrier that only keeps blocks from leaving early.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

// PTX ISA, barrier.cluster.wait (sm_90), acquire.
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

// PTX ISA, mapa (sm_90): the shared::cluster address of `shared_address` in another block.
__device__ __forceinline__ unsigned map_to_block(unsigned shared_address, unsigned block_rank) {
  unsigned result;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(result)
               : "r"(shared_address), "r"(block_rank));
  return result;
}

}  // namespace tilewright::ptx
