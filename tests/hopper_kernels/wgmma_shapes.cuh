// One wgmma of every N: block i computes D = A·Bᵀ of 64 x N x 16 with N = 8·(i + 1), A in shared
// memory or in registers, both operands K-major with the 32-byte swizzle.
#pragma once

#include "ptx/fence.cuh"
#include "ptx/wgmma_descriptor.cuh"
#include "ptx/wgmma_registers.cuh"
#include "ptx/wgmma_shared.cuh"

namespace tilewright::hopper_kernels {

struct WgmmaShapesParams {
  const unsigned short* a;  // [64][16]
  const unsigned short* b;  // [256][16], of which N rows are used
  float* out;               // [32][64][256]
};

__device__ __forceinline__ unsigned place(unsigned row, unsigned column) {
  const unsigned address = row * 32 + column * 2;
  return address ^ (address >> 7 & 1) << 4;
}

template <ptx::WgmmaInput kInput, bool kRegisters, int kN>
__device__ __forceinline__ void multiply(const WgmmaShapesParams& params, const char* a_tile,
                                         unsigned a_address, unsigned b_address, unsigned n) {
  if (n == kN) {
    const unsigned thread = threadIdx.x, row = thread / 32 * 16 + thread % 32 / 4;
    float d[kN / 2];
    for (float& each : d) each = __builtin_bit_cast(float, 0x7fc00000);  // not to be read
    const unsigned long long b = ptx::k_major_descriptor<32>(b_address);
    if constexpr (kRegisters) {
      unsigned a[4];
      for (unsigned r = 0; r < 4; ++r) {
        a[r] = *reinterpret_cast<const unsigned*>(
            a_tile + place(row + r % 2 * 8, thread % 4 * 2 + r / 2 * 8));
      }
      ptx::register_fence(d);
      ptx::register_fence(a);
      ptx::wgmma_fence();
      ptx::wgmma<kInput>(d, a, b, 0);
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>();
      ptx::register_fence(a);
    } else {
      ptx::register_fence(d);
      ptx::wgmma_fence();
      ptx::wgmma<kInput>(d, ptx::k_major_descriptor<32>(a_address), b, 0);
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>();
    }
    ptx::register_fence(d);
    for (unsigned i = 0; i < kN / 2; ++i) {
      const unsigned at = (row + i / 2 % 2 * 8) * 256 + i / 4 * 8 + thread % 4 * 2 + i % 2;
      params.out[blockIdx.x * 64 * 256 + at] = d[i];
    }
  } else if constexpr (kN > 8) {
    multiply<kInput, kRegisters, kN - 8>(params, a_tile, a_address, b_address, n);
  }
}

template <ptx::WgmmaInput kInput, bool kRegisters>
__device__ __forceinline__ void wgmma_shapes(const WgmmaShapesParams& params) {
  __shared__ __align__(1024) char a_tile[64 * 32];
  __shared__ __align__(1024) char b_tile[256 * 32];
  for (unsigned i = threadIdx.x; i < 256 * 16; i += 128) {
    const unsigned at = place(i / 16, i % 16);
    if (i < 64 * 16) *reinterpret_cast<unsigned short*>(a_tile + at) = params.a[i];
    *reinterpret_cast<unsigned short*>(b_tile + at) = params.b[i];
  }
  ptx::fence_proxy_async_shared();
  __syncthreads();
  multiply<kInput, kRegisters, 256>(
      params, a_tile, static_cast<unsigned>(__cvta_generic_to_shared(a_tile)),
      static_cast<unsigned>(__cvta_generic_to_shared(b_tile)), 8 * (blockIdx.x + 1));
}

}  // namespace tilewright::hopper_kernels
