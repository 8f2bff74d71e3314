// Conversions from fp32 to pairs of 16-bit floats, rounding to nearest even.
#pragma once

namespace tilewright::ptx {

// PTX ISA 9.7.9.21, cvt.rn.f16x2.f32 (sm_80): the first PTX source goes to the high half.
__device__ __forceinline__ unsigned pack_f16x2(float low, float high) {
  unsigned result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

// PTX ISA 9.7.9.21, cvt.rn.bf16x2.f32 (sm_80).
__device__ __forceinline__ unsigned pack_bf16x2(float low, float high) {
  unsigned result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

}  // namespace tilewright::ptx
