// cp.async: copies from global to shared memory that the thread does not wait for. Copies between
// two commits form a group; groups complete in order. After its wait a copy is visible to the
// thread that issued it only: a barrier publishes it.
#pragma once

namespace tilewright::ptx {

// PTX ISA 9.7.9.25.3.1, cp.async.cg (sm_80). Both addresses 16-byte aligned.
__device__ __forceinline__ void cp_async_16(unsigned shared_address, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address), "l"(global)
               : "memory");
}

// 16 bytes if `valid`, else 16 zero bytes and nothing is read.
__device__ __forceinline__ void cp_async_16_or_zero(unsigned shared_address, const void* global,
                                                    bool valid) {
  const int source_bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address), "l"(global),
               "r"(source_bytes)
               : "memory");
}

// PTX ISA 9.7.9.25.3.2, cp.async.commit_group.
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// PTX ISA 9.7.9.25.3.3, cp.async.wait_group: until at most kPending of the newest groups remain.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace tilewright::ptx
