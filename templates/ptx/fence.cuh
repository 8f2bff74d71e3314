// Fences between the generic proxy (ordinary loads and stores) and the async proxy (bulk and tensor
// copies, wgmma's reads of shared memory).
#pragma once

namespace tilewright::ptx {

// PTX ISA, fence.proxy.async.shared::cta (sm_90). A thread that wrote shared memory for a copy or a
// wgmma to read executes it after its stores and before the barrier that lets the reader start.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Of all memory: also for global data that ordinary stores wrote and a tensor copy will read.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

}  // namespace tilewright::ptx
