// Roles of warps: one thread of a warp, and the registers of a warpgroup (four warps, the first of
// them a multiple of four).
#pragma once

namespace tilewright::ptx {

// PTX ISA, elect.sync (sm_90): true in one lane of a converged warp.
__device__ __forceinline__ bool elect_one() {
  unsigned elected;
  asm volatile(
      "{\n.reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, elected;\n}"
      : "=r"(elected));
  return elected != 0;
}

// The first lane's value in all lanes: tells the compiler that the value is uniform in the warp.
__device__ __forceinline__ unsigned warp_uniform(unsigned value) {
  unsigned result;
  asm volatile("shfl.sync.idx.b32 %0, %1, 0, 31, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
}

// PTX ISA, setmaxnreg (sm_90a): every warp of the warpgroup executes it. The kernel needs a bound
// on its threads; kRegisters is a multiple of 8 from 24 to 256. Decreasing frees registers at once.
template <int kRegisters>
__device__ __forceinline__ void decrease_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Waits until the block's pool has the registers.
template <int kRegisters>
__device__ __forceinline__ void increase_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace tilewright::ptx
