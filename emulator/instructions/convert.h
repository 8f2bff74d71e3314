// cvt: conversions among integers, f32, f64, f16, bf16, tf32, e4m3 and e5m2, with the ISA's
// rounding, saturation and NaN rules. The packed forms follow its operand order: a goes to the
// high half.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "emulator/instructions/float.h"
#include "emulator/instructions/types.h"

namespace tilewright::emulator {

// ---- widening; exact. NaN in, canonical NaN out (to_float keeps a bf16 or f16 NaN a NaN). ----

TW_EMULATOR_INLINE float to_float(Half a);
TW_EMULATOR_INLINE float to_float(Bfloat16 a) {
  return canonical_nan(std::bit_cast<float>(static_cast<uint32_t>(a.bits) << 16));
}
float to_float(E4m3 a);
float to_float(E5m2 a);

// Subnormals become zero of the same sign (.ftz.f16 and comparisons).
constexpr Half flush(Half a) {
  return (a.bits & 0x7c00u) == 0 ? Half{static_cast<uint16_t>(a.bits & 0x8000u)} : a;
}
constexpr Bfloat16 flush(Bfloat16 a) {
  return (a.bits & 0x7f80u) == 0 ? Bfloat16{static_cast<uint16_t>(a.bits & 0x8000u)} : a;
}

// ---- float → float ----

// Modifiers of a cvt to a float type.
struct ConvertOptions {
  Rounding rounding = Rounding::kNearestEven;
  bool ftz = false;        // f32 operands and results
  bool saturate = false;   // .sat: [0, 1], NaN to +0
  bool satfinite = false;  // overflow, infinities: ± the largest finite number; NaN stays
  bool relu = false;       // negative to +0, NaN to the canonical NaN
};

float to_f32(double a, const ConvertOptions& options = {});
Half to_f16(float a, const ConvertOptions& options = {});
Half to_f16(double a, const ConvertOptions& options = {});
Bfloat16 to_bf16(float a, const ConvertOptions& options = {});
Bfloat16 to_bf16(double a, const ConvertOptions& options = {});
// .rna, .rn or .rz; the low 13 bits of the result are zero.
uint32_t to_tf32(float a, const ConvertOptions& options = {});
// .rn.satfinite{.relu}; NaN gives 0x7f.
E4m3 to_e4m3(float a, bool relu = false);
E5m2 to_e5m2(float a, bool relu = false);

// To nearest even, the hot forms of packed stores: inlined, so that lanes vectorise.
TW_EMULATOR_INLINE Half round_to_f16(float a);
TW_EMULATOR_INLINE Bfloat16 round_to_bf16(float a);

// cvt.{f16x2,bf16x2,e4m3x2,e5m2x2}.f32 d, a, b: a high, b low.
uint32_t to_f16x2(float a, float b, const ConvertOptions& options = {});
uint32_t to_bf16x2(float a, float b, const ConvertOptions& options = {});
uint16_t to_e4m3x2(float a, float b, bool relu = false);
uint16_t to_e5m2x2(float a, float b, bool relu = false);
// cvt.{e4m3x2,e5m2x2}.f16x2 and back: halves keep their places.
uint16_t f16x2_to_e4m3x2(uint32_t a, bool relu = false);
uint16_t f16x2_to_e5m2x2(uint32_t a, bool relu = false);
uint32_t e4m3x2_to_f16x2(uint16_t a, bool relu = false);
uint32_t e5m2x2_to_f16x2(uint16_t a, bool relu = false);

// cvt.{rni,rzi,rmi,rpi}{.ftz}{.sat}.f32.f32 and .f64.f64: to an integral value of the same type.
float round_to_integral(float a, const ConvertOptions& options = {});
double round_to_integral(double a, Rounding rounding);
Half round_to_integral(Half a, Rounding rounding);
// cvt{.ftz}{.sat}.f32.f32.
float convert_same(float a, const ConvertOptions& options = {});

// ---- float → integer ----

// Rounds to an integral value, then clamps to T. NaN gives 0; from f64, or to a 64-bit T, it gives
// 1 << (bits − 1).
template <std::integral T>
T to_integer(double a, Rounding rounding);
template <std::integral T>
T to_integer(float a, Rounding rounding, bool ftz = false);
template <std::integral T>
T to_integer(Half a, Rounding rounding) {
  return to_integer<T>(to_float(a), rounding);
}
template <std::integral T>
T to_integer(Bfloat16 a, Rounding rounding) {
  return to_integer<T>(to_float(a), rounding);
}

// ---- integer → float ----

float integer_to_f32(int64_t a, Rounding rounding = Rounding::kNearestEven);
float integer_to_f32(uint64_t a, Rounding rounding = Rounding::kNearestEven);
double integer_to_f64(int64_t a, Rounding rounding = Rounding::kNearestEven);
double integer_to_f64(uint64_t a, Rounding rounding = Rounding::kNearestEven);
Half integer_to_f16(int64_t a, Rounding rounding = Rounding::kNearestEven);
Half integer_to_f16(uint64_t a, Rounding rounding = Rounding::kNearestEven);
Bfloat16 integer_to_bf16(int64_t a, Rounding rounding = Rounding::kNearestEven);
Bfloat16 integer_to_bf16(uint64_t a, Rounding rounding = Rounding::kNearestEven);

// ---- integer → integer ----

// Truncates or extends (by the sign of From); with .sat clamps to the range of To.
template <std::integral To, std::integral From>
constexpr To convert_integer(From a, bool saturate = false) {
  if (saturate) {
    if (std::cmp_less(a, std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (std::cmp_greater(a, std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  }
  return static_cast<To>(a);
}

// cvt.pack.sat.{u16,s16}.s32 d, a, b: b in the low field, a in the next.
template <std::integral T>
constexpr uint32_t convert_pack(int32_t a, int32_t b) {
  static_assert(sizeof(T) == 2);
  const auto field = [](int32_t value) {
    return static_cast<uint32_t>(static_cast<uint16_t>(convert_integer<T>(value, true)));
  };
  return field(a) << 16 | field(b);
}
// cvt.pack.sat.{u8,s8,…}.s32.b32 d, a, b, c: a and b as above in 8-bit fields, c's low half above.
template <std::integral T>
constexpr uint32_t convert_pack(int32_t a, int32_t b, uint32_t c) {
  static_assert(sizeof(T) == 1);
  const auto field = [](int32_t value) {
    return static_cast<uint32_t>(static_cast<uint8_t>(convert_integer<T>(value, true)));
  };
  return c << 16 | field(a) << 8 | field(b);
}

// ---- bodies that the header needs ----

namespace detail {
template <std::integral T>
T clamp_to_integer(double integral, bool zero_for_nan) {
  constexpr int kValueBits = std::numeric_limits<T>::digits;
  constexpr double kEnd = static_cast<double>(uint64_t{1} << (kValueBits - 1)) * 2.0;  // max + 1
  if (integral != integral) {
    using U = std::make_unsigned_t<T>;
    return zero_for_nan ? T{0} : static_cast<T>(U{1} << (8 * sizeof(T) - 1));
  }
  if (integral >= kEnd) return std::numeric_limits<T>::max();
  if (integral < (std::is_signed_v<T> ? -kEnd : 0.0)) return std::numeric_limits<T>::min();
  return static_cast<T>(integral);
}
}  // namespace detail

template <std::integral T>
T to_integer(double a, Rounding rounding) {
  return detail::clamp_to_integer<T>(round_to_integral(a, rounding), false);
}
template <std::integral T>
T to_integer(float a, Rounding rounding, bool ftz) {
  const double value = static_cast<double>(ftz ? flush(a) : a);
  return detail::clamp_to_integer<T>(round_to_integral(value, rounding), sizeof(T) < 8);
}

TW_EMULATOR_INLINE float to_float(Half a) {
  // A normal's exponent is re-biased in place; a subnormal is a multiple of 2^-24. (A product that
  // scales the shifted bits would take a microcode assist for every subnormal.)
  const uint32_t magnitude = a.bits & 0x7fffu;
  const float multiple = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f;
  uint32_t bits = (magnitude << 13) + 0x38000000u;
  bits = magnitude < 0x0400u ? std::bit_cast<uint32_t>(multiple) : bits;
  bits = magnitude >= 0x7c00u ? 0x7f800000u : bits;
  bits |= static_cast<uint32_t>(a.bits & 0x8000u) << 16;
  return std::bit_cast<float>(magnitude > 0x7c00u ? kCanonicalNanF32 : bits);
}

TW_EMULATOR_INLINE Bfloat16 round_to_bf16(float a) {
  const uint32_t bits = std::bit_cast<uint32_t>(a);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return {static_cast<uint16_t>(a != a ? kCanonicalNan16 : rounded)};
}

TW_EMULATOR_INLINE Half round_to_f16(float a) {
  const uint32_t bits = std::bit_cast<uint32_t>(a);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Below 2^-14 adding 0.5 aligns the sum's last place with an f16 subnormal's, so that the
  // addition rounds.
  const uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  uint32_t d = magnitude < 0x38800000u ? small : normal;
  d = magnitude >= 0x477ff000u ? 0x7c00u : d;  // 65520 and above round to infinity
  d = sign | d;
  return {static_cast<uint16_t>(a != a ? kCanonicalNan16 : d)};
}

}  // namespace tilewright::emulator
