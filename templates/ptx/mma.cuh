// mma.sync: D = A·B + C on the tensor cores of one warp. A is row-major (m x k), B column-major
// (k x n), accumulation in fp32. Lane l holds, with g = l / 4 and t = l % 4:
//   A  row g + 8·(r % 2), columns 2t, 2t+1 + 8·(r / 2) in register r
//   B  rows 2t, 2t+1 + 8·r, column g in register r
//   D  row g + 8·(i / 2), column 2t + i % 2 in element i
#pragma once

namespace tilewright::ptx {

// PTX ISA 9.7.14.5, mma.sync.aligned.m16n8k16 (sm_80).
__device__ __forceinline__ void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                                 unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// PTX ISA 9.7.14.5, mma.sync.aligned.m16n8k16 (sm_80).
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4],
                                                  unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// PTX ISA 9.7.14.5, mma.sync.aligned.m16n8k8 in TF32 (sm_80). Unlike the 16-bit shapes
//   A  row g + 8·(r % 2), column t + 4·(r / 2) in register r
//   B  row t + 4·r, column g in register r
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                                 unsigned b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace tilewright::ptx
