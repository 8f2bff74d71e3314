// ldmatrix: 8x8 matrices of 16-bit elements from shared memory into MMA fragments. Lane 8j + r
// gives the address of row r of matrix j: 16 bytes, 16-byte aligned.
#pragma once

namespace tilewright::ptx {

// PTX ISA 9.7.14.5.15, ldmatrix.sync.aligned.m8n8.x4 (sm_75). Register j: row l / 4 of matrix j,
// columns 2·(l % 4) and the next.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], unsigned shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address)
               : "memory");
}

// As ldmatrix_x4, each matrix transposed: rows 2·(l % 4) and the next, column l / 4.
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], unsigned shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address)
               : "memory");
}

// Two matrices: the addresses of lanes 16 and up are ignored.
__device__ __forceinline__ void ldmatrix_x2_trans(unsigned (&r)[2], unsigned shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address)
               : "memory");
}

}  // namespace tilewright::ptx
