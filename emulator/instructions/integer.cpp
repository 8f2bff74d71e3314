#include "emulator/instructions/integer.h"

#include <algorithm>

namespace tilewright::emulator {
namespace {

uint32_t field(uint32_t value, int index, int bits, bool is_signed) {
  const uint32_t raw = value >> (index * bits) & ((1u << bits) - 1);
  const uint32_t sign = 1u << (bits - 1);
  return is_signed ? (raw ^ sign) - sign : raw;
}

}  // namespace

uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed) {
  for (int i = 0; i < 4; ++i) c += field(a, i, 8, a_signed) * field(b, i, 8, b_signed);
  return c;
}

uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed, bool high) {
  for (int i = 0; i < 2; ++i) {
    c += field(a, i, 16, a_signed) * field(b, i + (high ? 2 : 0), 8, b_signed);
  }
  return c;
}

uint32_t fns(uint32_t mask, uint32_t base, int32_t offset) {
  constexpr uint32_t kNone = 0xffffffffu;
  if (base > 31) return kNone;
  if (offset == 0) return (mask >> base & 1u) != 0 ? base : kNone;
  int64_t left = offset < 0 ? -int64_t{offset} : int64_t{offset};
  const int step = offset < 0 ? -1 : 1;
  for (int i = static_cast<int>(base); i >= 0 && i < 32; i += step) {
    if ((mask >> i & 1u) != 0 && --left == 0) return static_cast<uint32_t>(i);
  }
  return kNone;
}

uint32_t prmt(uint32_t a, uint32_t b, uint32_t c, PrmtMode mode) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  const uint32_t s = c & 3u;
  uint32_t d = 0;
  for (uint32_t n = 0; n < 4; ++n) {
    uint32_t selector = 0;
    switch (mode) {
      case PrmtMode::kIndex:
        selector = c >> (4 * n) & 15u;
        break;
      case PrmtMode::kF4e:
        selector = s + n;
        break;
      case PrmtMode::kB4e:
        selector = (s - n) & 7u;
        break;
      case PrmtMode::kRc8:
        selector = s;
        break;
      case PrmtMode::kEcl:
        selector = std::max(n, s);
        break;
      case PrmtMode::kEcr:
        selector = std::min(n, s);
        break;
      case PrmtMode::kRc16:
        selector = 2 * (s & 1u) + (n & 1u);
        break;
    }
    uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (selector & 7u))) & 0xffu;
    if ((selector & 8u) != 0) byte = (byte & 0x80u) != 0 ? 0xffu : 0u;
    d |= byte << (8 * n);
  }
  return d;
}

}  // namespace tilewright::emulator
