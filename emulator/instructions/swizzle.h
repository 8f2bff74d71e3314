// The shared-memory swizzles of TMA and wgmma: an XOR of address bits 4..6 with bits 7..9, applied
// to absolute shared addresses.
#pragma once

#include <cstdint>

namespace tilewright::emulator {

// The value is the span in bytes. Each encoding (TMA enum, wgmma layout code) maps to it by name.
enum class Swizzle : uint8_t { kNone = 0, k32B = 32, k64B = 64, k128B = 128 };

constexpr uint32_t swizzle_mask(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::k32B:
      return 1;
    case Swizzle::k64B:
      return 3;
    case Swizzle::k128B:
      return 7;
    case Swizzle::kNone:
      break;
  }
  return 0;
}

// Its own inverse.
constexpr uint32_t swizzle_address(uint32_t address, Swizzle swizzle) {
  return address ^ (((address >> 7) & swizzle_mask(swizzle)) << 4);
}

// Bytes after which the pattern repeats (256, 512, 1024); 16 without a swizzle.
constexpr uint32_t swizzle_repeat(Swizzle swizzle) {
  return swizzle == Swizzle::kNone ? 16u : static_cast<uint32_t>(swizzle) * 8u;
}

}  // namespace tilewright::emulator
