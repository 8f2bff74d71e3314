// Source of basics.ptx: ordinary CUDA for the tests of the PTX front end.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cassert>
#include <cstdio>
struct Big {
  float a[20];
  int n;
};
__constant__ int table[16] = {1, 2, 3};
__device__ int counter = 7;
__device__ int* pointer = &counter;
__device__ float ops(int i, float x);
__device__ __noinline__ float square(float x) { return x * x; }
__device__ __noinline__ float half_of(float x) { return x * 0.5f; }
typedef float (*Op)(float);
__device__ Op functions[2] = {square, half_of};
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
template <int N>
__global__ void tmpl(float* p) {
  p[threadIdx.x] *= N;
}
template __global__ void tmpl<3>(float*);
extern "C" __global__ void __launch_bounds__(256, 2)
    basics(float* out, const float* in, Big big, int n, bool flag, char c) {
  __shared__ float tile[64];
  extern __shared__ char dyn[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float local[32];
  for (int k = 0; k < 32; ++k) local[k] = in[k] * k;
  tile[threadIdx.x & 63] = local[i & 31];
  __syncthreads();
  switch (n) {
    case 0:
      out[0] = 1;
      break;
    case 1:
      out[1] = 5;
      break;
    case 2:
      out[2] = sinf(in[3]);
      break;
    case 3:
      out[3] = 4;
      break;
    case 4:
      out[9] = 3;
      break;
    case 5:
      out[11] = 1;
      break;
  }
  if (i < n)
    out[i] = functions[i & 1](in[i]) + fib(n & 7) + table[n & 15] + big.a[i % 20] + (flag ? c : 2) +
             expf(in[i]) + tile[5] + dyn[3];
  if (threadIdx.x == 0) {
    atomicAdd(&counter, 1);
    printf("hello %d %f\n", n, out[0]);
  }
  unsigned m = __ballot_sync(~0u, i & 1);
  out[i + 5] = __shfl_xor_sync(~0u, out[i], 3) + __popc(m) + __reduce_add_sync(~0u, i) +
               __funnelshift_l(n, i, 3);
  double d = out[i];
  d = sqrt(d) / 3.0 + fma(d, d, 1.0);
  out[i] = (float)d + (float)((long long)n / (i + 1)) + (n % (i + 3));
}
extern "C" __global__ void halves(half2* h, __nv_bfloat162* b, __nv_fp8x2_e4m3* f, half* s,
                                  float* o, unsigned long long* u, int4* v) {
  int i = threadIdx.x;
  h[i] = __hfma2(h[i], h[i + 1], h[i + 2]);
  h[i] = h2exp2(h[i]);
  b[i] = __hmax2(b[i], b[i + 1]);
  f[i] = __nv_fp8x2_e4m3(make_float2(o[i], o[i + 1]));
  s[i] = __float2half(o[i] + __half2float(s[i + 3]));
  if (s[i] > s[i + 1]) s[i] = __hadd(s[i], s[i + 1]);
  o[i] = __expf(o[i]) + __logf(o[i]) + __fdividef(o[i], 3.f) + rsqrtf(o[i]) + tanhf(o[i]) +
         __bfloat162float(b[i].x);
  u[i] = __umul64hi(u[i], u[i + 1]) + __brevll(u[i]) + __clzll(u[i]) + atomicCAS(u, 1ull, 2ull) +
         atomicMax(u + 1, 5ull);
  atomicAdd(h, h[0]);
  atomicAdd(o, 1.f);
  atomicAdd((double*)u, 1.0);
  v[i] = v[i + 1];
  o[i] += __ldg(o + 5) + __dp4a(i, i, i) + __byte_perm(i, 3, 0x1234) + clock() + (float)clock64();
  __threadfence();
  __nanosleep(20);
  if (i == 77) __trap();
  assert(i < 1000);
}
