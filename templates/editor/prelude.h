// What NVRTC defines by itself, for clang-based editors and checks (.clangd names this file): clang
// cannot read CUDA's own headers, and templates include none. Never compiled into anything.
#pragma once

#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __grid_constant__

struct TilewrightThreadIndex {
  unsigned x, y, z;
};
extern __device__ const TilewrightThreadIndex threadIdx, blockIdx, blockDim, gridDim;

__device__ void __syncthreads();
__device__ float fmaxf(float, float);
__device__ decltype(sizeof(0)) __cvta_generic_to_shared(const void*);
__device__ void* __cvta_shared_to_generic(decltype(sizeof(0)));
