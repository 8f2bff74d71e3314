// Exact values and their rounding to any binary float format of up to 64 bits: what the directed
// rounding modes and the conversions rest on. Not for the hot path.
#pragma once

#include <cstdint>

#include "emulator/instructions/types.h"

namespace tilewright::emulator {

__extension__ using Uint128 = unsigned __int128;

struct FloatSpec {
  int exponent_bits;
  int fraction_bits;
};
inline constexpr FloatSpec kSpecF64 = {11, 52};
inline constexpr FloatSpec kSpecF32 = {8, 23};
inline constexpr FloatSpec kSpecTf32 = {8, 10};
inline constexpr FloatSpec kSpecBf16 = {8, 7};
inline constexpr FloatSpec kSpecF16 = {5, 10};

// (−1)^negative · (significand + s) · 2^exponent, 0 < s < 1 when sticky, else s = 0.
struct Exact {
  bool negative = false;
  int exponent = 0;
  Uint128 significand = 0;
  bool sticky = false;
};

// A finite double.
Exact to_exact(double value);
// The nearest value of the format in the given direction, as its bits. Overflow gives infinity or
// the largest finite number as IEEE 754 says for the mode. A zero significand gives ±0.
uint64_t round_exact(const Exact& value, FloatSpec spec, Rounding rounding);
// The same for any double; a NaN becomes all ones below the sign.
uint64_t round_double(double value, FloatSpec spec, Rounding rounding);

}  // namespace tilewright::emulator
