// Value types of the instruction semantics: rounding modes, modifiers, and the narrow float formats
// as distinct types, so that an f16 cannot be handed to a bf16 function. Bits only; arithmetic is
// in float.h and float16.h, conversion in convert.h.
#pragma once

#include <bit>
#include <cstdint>

namespace tilewright::emulator {

inline constexpr int kLanes = 32;  // of a warp

// .rn .rz .rm .rp, and .rna (nearest, ties away) of cvt to tf32.
enum class Rounding : uint8_t { kNearestEven, kTowardZero, kDown, kUp, kNearestAway };

// Modifiers of scalar float instructions; what an instruction does not allow stays false.
struct FloatOptions {
  Rounding rounding = Rounding::kNearestEven;
  bool ftz = false;          // subnormal inputs and results become zero of the same sign
  bool saturate = false;     // .sat: clamp to [0, 1], NaN becomes +0
  bool relu = false;         // negative becomes +0, NaN the canonical NaN
  bool nan = false;          // min, max: .NaN, a NaN operand gives the canonical NaN
  bool xorsign_abs = false;  // min, max: of magnitudes, sign = xor of the operands' signs
};

struct Half {  // f16
  uint16_t bits = 0;
  bool operator==(const Half&) const = default;
};
struct Bfloat16 {  // bf16
  uint16_t bits = 0;
  bool operator==(const Bfloat16&) const = default;
};
struct E4m3 {
  uint8_t bits = 0;
  bool operator==(const E4m3&) const = default;
};
struct E5m2 {
  uint8_t bits = 0;
  bool operator==(const E5m2&) const = default;
};

// Every NaN that an f32 (f16, bf16) instruction computes.
inline constexpr uint32_t kCanonicalNanF32 = 0x7fffffffu;
inline constexpr uint16_t kCanonicalNan16 = 0x7fffu;

// Low and high half of a packed register.
template <class T>
constexpr T low_half(uint32_t packed) {
  return T{static_cast<uint16_t>(packed & 0xffffu)};
}
template <class T>
constexpr T high_half(uint32_t packed) {
  return T{static_cast<uint16_t>(packed >> 16)};
}
template <class T>
constexpr uint32_t pack_halves(T low, T high) {
  return static_cast<uint32_t>(low.bits) | static_cast<uint32_t>(high.bits) << 16;
}
// Applies a scalar function of T (Half, Bfloat16) to both halves: the x2 form of any instruction.
//   map_halves<Half>([&](Half a, Half b) { return add(a, b, options); }, a, b)
template <class T, class Function, class... Packed>
constexpr uint32_t map_halves(Function&& function, Packed... packed) {
  return pack_halves<T>(function(low_half<T>(packed)...), function(high_half<T>(packed)...));
}

}  // namespace tilewright::emulator
