// stmatrix: MMA fragments into 8x8 matrices of 16-bit elements in shared memory, the inverse of
// ldmatrix. Lane 8j + r gives the address of row r of matrix j: 16 bytes, 16-byte aligned.
#pragma once

namespace tilewright::ptx {

// PTX ISA, stmatrix.sync.aligned.m8n8.x4 (sm_90). Register j: row l / 4 of matrix j, columns
// 2·(l % 4) and the next.
__device__ __forceinline__ void stmatrix_x4(unsigned shared_address, const unsigned (&r)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
}

// Two matrices: the addresses of lanes 16 and up are ignored.
__device__ __forceinline__ void stmatrix_x2(unsigned shared_address, const unsigned (&r)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(shared_address),
               "r"(r[0]), "r"(r[1])
               : "memory");
}

// As stmatrix_x4, each matrix transposed: rows 2·(l % 4) and the next, column l / 4.
__device__ __forceinline__ void stmatrix_x4_trans(unsigned shared_address, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   shared_address),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

}  // namespace tilewright::ptx
