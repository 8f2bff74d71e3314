#include "emulator/instructions/wgmma_descriptor.h"

#include <cstring>

namespace tilewright::emulator {
namespace {

constexpr uint32_t kAddressMask = 0x3ffff;
constexpr uint32_t kChunkBytes = 16;
constexpr int kRowBytes = 32;
// Bits 15:14, 31:30, 48:46 and 61:52.
constexpr uint64_t kReservedBits =
    uint64_t{3} << 14 | uint64_t{3} << 30 | uint64_t{7} << 46 | uint64_t{0x3ff} << 52;

// `offset` within the operand, added to the start, swizzled as an absolute address. A base offset b
// says that the repeating pattern begins b 128-byte lines into its own repeat.
uint32_t place(const WgmmaDescriptor& descriptor, uint32_t offset) {
  const uint32_t address = descriptor.start_address + offset;
  const uint32_t line = (address >> 7) - descriptor.base_offset;
  const uint32_t flip = (line & swizzle_mask(descriptor.swizzle)) << 4;
  return (address ^ flip) & kAddressMask;
}

}  // namespace

WgmmaDescriptor decode_wgmma_descriptor(uint64_t bits) {
  constexpr Swizzle kLayouts[4] = {Swizzle::kNone, Swizzle::k128B, Swizzle::k64B, Swizzle::k32B};
  const auto field = [bits](int position) {
    return static_cast<uint32_t>(bits >> position & 0x3fff) << 4;
  };
  return {.start_address = field(0),
          .leading_offset = field(16),
          .stride_offset = field(32),
          .base_offset = static_cast<uint32_t>(bits >> 49 & 7),
          .swizzle = kLayouts[bits >> 62],
          .reserved_bits_clear = (bits & kReservedBits) == 0};
}

uint32_t element_address(const WgmmaDescriptor& descriptor, Major major, int element_bytes, int row,
                         int k) {
  const uint32_t i = static_cast<uint32_t>(row);
  const uint32_t step = static_cast<uint32_t>(k);
  const uint32_t bytes = static_cast<uint32_t>(element_bytes);
  const uint32_t span = static_cast<uint32_t>(descriptor.swizzle);
  const uint32_t leading = descriptor.leading_offset;
  const uint32_t stride = descriptor.stride_offset;
  const bool plain = descriptor.swizzle == Swizzle::kNone;
  if (major == Major::kK) {
    const uint32_t byte = step * bytes;
    if (plain) {
      return place(descriptor, (i % 8) * kChunkBytes + (i / 8) * stride +
                                   (byte / kChunkBytes) * leading + byte % kChunkBytes);
    }
    return place(descriptor, (i % 8) * span + (i / 8) * stride + byte);
  }
  if (plain) {
    return place(descriptor,
                 (i % 8) * 2 + (i / 8) * stride + (step % 8) * kChunkBytes + (step / 8) * leading);
  }
  const uint32_t width = span / 2;
  return place(descriptor,
               (i % width) * 2 + (i / width) * leading + (step % 8) * span + (step / 8) * stride);
}

uint32_t chunk_address(const WgmmaDescriptor& descriptor, Major major, int chunk) {
  if (major == Major::kK) return element_address(descriptor, major, 1, chunk / 2, chunk % 2 * 16);
  return element_address(descriptor, major, 2, chunk / 16 * 8, chunk % 16);
}

void gather_tile(const WgmmaDescriptor& descriptor, Major major, int rows, const uint8_t* shared,
                 uint8_t* tile) {
  for (int chunk = 0; chunk < chunk_count(rows); ++chunk) {
    const uint8_t* source = shared + chunk_address(descriptor, major, chunk);
    if (major == Major::kK) {
      std::memcpy(tile + chunk * 16, source, 16);
      continue;
    }
    uint8_t* column = tile + chunk / 16 * 8 * kRowBytes + chunk % 16 * 2;
    for (int i = 0; i < 8; ++i) std::memcpy(column + i * kRowBytes, source + 2 * i, 2);
  }
}

TileCoordinate wgmma_d_coordinate(int thread, int element) {
  const int lane = thread % 32;
  return {16 * (thread / 32) + lane / 4 + 8 * (element / 2 % 2),
          8 * (element / 4) + 2 * (lane % 4) + element % 2};
}

TileCoordinate wgmma_a_coordinate(int thread, int element, int element_bytes) {
  const int per_register = 4 / element_bytes;
  const int lane = thread % 32;
  const int reg = element / per_register;
  return {16 * (thread / 32) + lane / 4 + 8 * (reg % 2),
          (4 * (reg / 2) + lane % 4) * per_register + element % per_register};
}

}  // namespace tilewright::emulator
