// Conversions between fp32 and pairs of 16-bit floats, and to TF32.
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

// PTX ISA 9.7.9.21, cvt.f32.f16: exact.
__device__ __forceinline__ float low_f16(unsigned packed) {
  float result;
  asm("{.reg .f16 l, h;\n mov.b32 {l, h}, %1;\n cvt.f32.f16 %0, l;}" : "=f"(result) : "r"(packed));
  return result;
}
__device__ __forceinline__ float high_f16(unsigned packed) {
  float result;
  asm("{.reg .f16 l, h;\n mov.b32 {l, h}, %1;\n cvt.f32.f16 %0, h;}" : "=f"(result) : "r"(packed));
  return result;
}

// A bf16 is the upper half of an fp32.
__device__ __forceinline__ float low_bf16(unsigned packed) {
  return __builtin_bit_cast(float, packed << 16);
}
__device__ __forceinline__ float high_bf16(unsigned packed) {
  return __builtin_bit_cast(float, packed & 0xffff0000u);
}

// PTX ISA 9.7.9.21, cvt.rna.tf32.f32 (sm_80): 11 significant bits, ties away from zero.
__device__ __forceinline__ unsigned to_tf32(float x) {
  unsigned result;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(x));
  return result;
}

}  // namespace tilewright::ptx
