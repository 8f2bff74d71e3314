// Approximate functions of the special-function unit, with the ISA's error bounds.
#pragma once

namespace tilewright::ptx {

// PTX ISA 9.7.3.21, ex2.approx.ftz.f32: 2^x within 2 ulp; results below 2^-126 are 0, as are
// those of -inf. The flushing form is one instruction, the other one needs range scaling.
__device__ __forceinline__ float exp2_approx(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// PTX ISA 9.7.3.20, lg2.approx.f32: absolute error 2^-22 near 1, else relative 2^-22.
__device__ __forceinline__ float log2_approx(float x) {
  float result;
  asm("lg2.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// PTX ISA 9.7.3.14, rcp.approx.ftz.f32: 1 / x within 1 ulp.
__device__ __forceinline__ float reciprocal_approx(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace tilewright::ptx
