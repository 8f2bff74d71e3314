// mbarrier: barriers in shared memory that count arrivals and, in the same phase, bytes of
// asynchronous copies. A phase completes when the pending arrivals and the pending bytes are both
// zero; then the next one begins with the initial count. Addresses are shared::cta, 8-byte aligned.
//
// A waiter names the parity of the phase it waits for: 0 for the first, 1 for the second, and so
// on. On a fresh barrier parity 1 has completed, so a producer that starts with 1 finds every slot
// of a ring empty. Only the current and the preceding phase can be told apart.
#pragma once

namespace tilewright::ptx {

// PTX ISA, mbarrier.init (sm_80). One thread; then fence_mbarrier_init and a barrier of all users.
__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// PTX ISA, fence.mbarrier_init (sm_90): makes initialised barriers known to the cluster and to the
// asynchronous copies that signal them.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// PTX ISA, mbarrier.arrive (sm_80), release.cta: orders this thread's earlier accesses only.
__device__ __forceinline__ void mbarrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at the barrier of the same offset in block `block_rank` of the cluster, which may be the
// own one. Release at cluster scope: pair with mbarrier_wait_cluster.
__device__ __forceinline__ void mbarrier_arrive_cluster(unsigned barrier, unsigned block_rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(block_rank)
      : "memory");
}

// PTX ISA, mbarrier.arrive.expect_tx (sm_90): adds `bytes` to the phase's pending bytes, then
// arrives once. Comes before the copies that deliver the bytes.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// PTX ISA, mbarrier.try_wait.parity (sm_90), acquire.cta. May return false for lack of time.
__device__ __forceinline__ bool mbarrier_try_wait(unsigned barrier, unsigned parity) {
  unsigned done;
  asm volatile(
      "{\n.reg .pred done;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// Waits until the phase of this parity has completed.
__device__ __forceinline__ void mbarrier_wait(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// As mbarrier_wait, for phases that threads of other blocks arrive at: acquire at cluster scope.
__device__ __forceinline__ void mbarrier_wait_cluster(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

}  // namespace tilewright::ptx
