// Source of ampere.ptx: ordinary CUDA for the tests of the PTX front end.
#include <cstdint>
extern "C" __global__ void ampere(float* out, const uint4* in, int n) {
  __shared__ __align__(128) uint4 tile[256];
  uint32_t base = (uint32_t)__cvta_generic_to_shared(tile);
  asm volatile(
      "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(base + threadIdx.x * 16),
      "l"(in + threadIdx.x), "r"(n > 3 ? 16 : 0));
  asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  uint32_t a[4], b[2];
  float c[4] = {0, 0, 0, 0};
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(base));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(b[0]), "=r"(b[1])
               : "r"(base + 512));
#pragma unroll 1
  for (int i = 0; i < n; ++i)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  for (int i = 0; i < 4; ++i)
    if (c[i] > 0.f) atomicMax((int*)out, __float_as_int(c[i]));
  asm volatile("{ .reg .b64 st; mbarrier.arrive.shared.b64 st, [%0]; }" ::"r"(base));
}
