// Descriptors of wgmma operands in shared memory (PTX ISA, matrix-descriptor format; sm_90a).
//
// A tile is made of lines of kSpan bytes (32, 64 or 128), one under the other, as a tensor copy
// with the swizzle of that span writes a box of kSpan bytes times its rows. Tiles start at
// multiples of 8·kSpan bytes, so that the swizzle, which permutes on absolute addresses, starts
// with the tile. A wider operand is several such tiles side by side.
#pragma once

namespace tilewright::ptx {

constexpr unsigned swizzle_code(int span) {
  return span == 128 ? 1 : span == 64 ? 2 : span == 32 ? 3 : 0;
}

// Bits 13:0 start / 16, 29:16 leading offset / 16, 45:32 stride offset / 16, 63:62 swizzle.
__device__ __forceinline__ unsigned long long wgmma_descriptor(unsigned shared_address,
                                                               unsigned leading_bytes,
                                                               unsigned stride_bytes,
                                                               unsigned code) {
  const unsigned low = (shared_address & 0x3ffff) >> 4 | leading_bytes >> 4 << 16;
  const unsigned high = stride_bytes >> 4 | code << 30;
  return static_cast<unsigned long long>(high) << 32 | low;
}

// K along the lines: rows of the operand are lines. A step of 32 bytes along K (16 elements of 16
// bits) is descriptor_advance(…, 32); the tile to the right begins rows · kSpan bytes further on.
template <int kSpan>
__device__ __forceinline__ unsigned long long k_major_descriptor(unsigned shared_address) {
  static_assert(kSpan == 128 || kSpan == 64 || kSpan == 32);
  return wgmma_descriptor(shared_address, 16, 8 * kSpan, swizzle_code(kSpan));  // no leading offset
}

// M or N along the lines: each line is one k, kSpan / 2 elements of 16 bits wide. tile_bytes: from
// one tile to the tile to its right. A step of 16 along K is 16 lines:
// descriptor_advance(…, 16 * kSpan).
template <int kSpan>
__device__ __forceinline__ unsigned long long mn_major_descriptor(unsigned shared_address,
                                                                  unsigned tile_bytes) {
  static_assert(kSpan == 128 || kSpan == 64 || kSpan == 32);
  return wgmma_descriptor(shared_address, tile_bytes, 8 * kSpan, swizzle_code(kSpan));
}

// The same operand `bytes` further on: a multiple of 16.
__device__ __forceinline__ unsigned long long descriptor_advance(unsigned long long descriptor,
                                                                 unsigned bytes) {
  // The start never leaves its 14 bits within shared memory, so only the low word changes.
  return (descriptor & 0xffffffff00000000) | (static_cast<unsigned>(descriptor) + (bytes >> 4));
}

}  // namespace tilewright::ptx
