// wgmma: products on the tensor cores that four warps (a warpgroup) start together and wait for
// later. The forms are in wgmma_shared.cuh (A in shared memory) and wgmma_registers.cuh.
//
//   register_fence(d);     // every register of d, and of A, is written by now …
//   wgmma_fence();         // … and the warpgroup's wgmmas may use them
//   wgmma(d, a, b, …);     // any number into the same d
//   wgmma_commit();        // these are a group
//   wgmma_wait<0>();       // at most 0 groups are still running
//   register_fence(d);     // the compiler reads d only from here on
//
// Between wgmma and the wait that covers it nobody may touch d, A's registers, or the shared memory
// of A and B. The compiler does not know that, hence register_fence: without it, it may move code
// that uses registers across the waits, and ptxas then runs the wgmmas one by one (C7510).
//
// Thread t of the warpgroup, with w = t / 32, g = t % 32 / 4, c = t % 4, holds
//   D            row 16w + g + 8·(i / 2 % 2), column 8·(i / 4) + 2c + i % 2 in element i
//   A (16 bit)   row 16w + g + 8·(r % 2), columns 2c, 2c+1 + 8·(r / 2) in register r
// so two neighbouring 8-column blocks of D, packed in pairs, are A of one k16 step.
#pragma once

namespace tilewright::ptx {

// Element type of A and B; sums are fp32.
enum class WgmmaInput : int { kF16, kBF16 };

// Which dimension of an operand is contiguous in shared memory: the inner one of the product (K),
// or the outer one (M of A, N of B).
enum class Major : int { kK = 0, kMN = 1 };

// PTX ISA, wgmma.fence (sm_90a): before the first wgmma, and between other accesses to registers
// and wgmmas that use them.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// PTX ISA, wgmma.commit_group (sm_90a).
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// PTX ISA, wgmma.wait_group (sm_90a): until at most kPending of the newest groups are running.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// No instruction: keeps the compiler from moving code that uses these registers across this point.
template <int kCount>
__device__ __forceinline__ void register_fence(float (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

template <int kCount>
__device__ __forceinline__ void register_fence(unsigned (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

template <int kOuter, int kCount>
__device__ __forceinline__ void register_fence(unsigned (&registers)[kOuter][kCount]) {
#pragma unroll
  for (int i = 0; i < kOuter; ++i) register_fence(registers[i]);
}

}  // namespace tilewright::ptx
