// Data movement between the lanes of a warp, and the warp's place in the grid.
#pragma once

namespace tilewright::ptx {

// PTX ISA 9.7.9.6, shfl.sync.bfly: the value of lane l ^ kMask.
template <int kMask>
__device__ __forceinline__ unsigned shuffle_xor(unsigned value) {
  unsigned result;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;"
               : "=r"(result)
               : "r"(value), "n"(kMask));
  return result;
}

template <int kMask>
__device__ __forceinline__ float shuffle_xor(float value) {
  float result;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;"
               : "=f"(result)
               : "f"(value), "n"(kMask));
  return result;
}

// PTX ISA 10, special registers. Volatile: a second call reads the register again instead of
// keeping what was derived from the first one alive in between.

// %ctaid.x
__device__ __forceinline__ unsigned block_index() {
  unsigned result;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(result));
  return result;
}

// %ctaid.y
__device__ __forceinline__ unsigned block_index_y() {
  unsigned result;
  asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(result));
  return result;
}

// %laneid
__device__ __forceinline__ int lane_index() {
  int result;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(result));
  return result;
}

}  // namespace tilewright::ptx
