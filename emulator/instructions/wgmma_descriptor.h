// The 64-bit matrix descriptor of wgmma (sm_90a) and the shared address of every element it names,
// for K-major and MN-major operands under every swizzle; also the register layouts of wgmma.
#pragma once

#include <cstdint>

#include "emulator/instructions/swizzle.h"

namespace tilewright::emulator {

enum class Major : uint8_t { kK, kMn };  // trans-a/-b immediate 0 and 1

struct WgmmaDescriptor {
  uint32_t start_address = 0;   // shared byte address, 18 bits, multiple of 16
  uint32_t leading_offset = 0;  // LBO, bytes
  uint32_t stride_offset = 0;   // SBO, bytes
  uint32_t base_offset = 0;     // 0..7
  Swizzle swizzle = Swizzle::kNone;
  bool reserved_bits_clear = true;  // false: bits that must be 0 are set
  bool operator==(const WgmmaDescriptor&) const = default;
};

WgmmaDescriptor decode_wgmma_descriptor(uint64_t bits);

// Byte address of element (row, k) of one operand; row runs along M of A or N of B. Bytes within
// the 16-byte chunk follow. MN-major requires 2-byte elements. The result keeps 18 bits, as the
// descriptor does.
uint32_t element_address(const WgmmaDescriptor& descriptor, Major major, int element_bytes, int row,
                         int k);

// The operand's 16-byte chunks, in a fixed order: rows*2 of them (each row has 32 bytes). Chunk c
// of a K-major operand is row c/2, its half c%2; of an MN-major one rows 8(c/16).. at k = c%16.
constexpr int chunk_count(int rows) { return rows * 2; }
uint32_t chunk_address(const WgmmaDescriptor& descriptor, Major major, int chunk);

// Copies `rows` rows of 32 bytes out of shared memory into tile[rows][32], each row k-contiguous;
// `shared` points at shared address 0 of the CTA's window (18-bit addresses). The caller has
// checked the chunks' bounds. rows is a multiple of 8.
void gather_tile(const WgmmaDescriptor& descriptor, Major major, int rows, const uint8_t* shared,
                 uint8_t* tile);

struct TileCoordinate {
  int row = 0;
  int column = 0;  // n for D; k for A
  bool operator==(const TileCoordinate&) const = default;
};
// Element of the accumulator tile in 32-bit register i of thread t (0..127) for f32 and s32; for
// f16, element i = 2·register + half.
TileCoordinate wgmma_d_coordinate(int thread, int element);
// Element i of A in registers: 2-byte types i = 0..7, 1-byte 0..15, tf32 0..3.
TileCoordinate wgmma_a_coordinate(int thread, int element, int element_bytes);

}  // namespace tilewright::emulator
