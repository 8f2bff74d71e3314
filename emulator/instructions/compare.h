// Comparisons and selections: set, setp, slct, testp, copysign. Boolean combination with a third
// predicate and the choice of the destination stay with the caller.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>

#include "emulator/instructions/convert.h"
#include "emulator/instructions/types.h"

namespace tilewright::emulator {

// eq … ge are ordered on floats (false with a NaN operand, ne too), equ … geu are true with a NaN.
// On unsigned integers lo, ls, hi, hs are lt, le, gt, ge.
enum class Compare : uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan,
};

// setp on any integer type (bit types compare as unsigned, kEq and kNe only).
template <std::integral T>
constexpr bool compare(T a, T b, Compare op) {
  switch (op) {
    case Compare::kEq:
      return a == b;
    case Compare::kNe:
      return a != b;
    case Compare::kLt:
      return a < b;
    case Compare::kLe:
      return a <= b;
    case Compare::kGt:
      return a > b;
    case Compare::kGe:
      return a >= b;
    default:
      return false;
  }
}

namespace detail {
template <std::floating_point T>
constexpr bool compare_floats(T a, T b, Compare op) {
  const bool unordered = a != a || b != b;
  switch (op) {
    case Compare::kEq:
      return a == b;
    case Compare::kNe:
      return !unordered && a != b;
    case Compare::kLt:
      return a < b;
    case Compare::kLe:
      return a <= b;
    case Compare::kGt:
      return a > b;
    case Compare::kGe:
      return a >= b;
    case Compare::kEqu:
      return unordered || a == b;
    case Compare::kNeu:
      return unordered || a != b;
    case Compare::kLtu:
      return unordered || a < b;
    case Compare::kLeu:
      return unordered || a <= b;
    case Compare::kGtu:
      return unordered || a > b;
    case Compare::kGeu:
      return unordered || a >= b;
    case Compare::kNum:
      return !unordered;
    case Compare::kNan:
      return unordered;
  }
  return false;
}
}  // namespace detail

inline bool compare(float a, float b, Compare op, bool ftz = false) {
  return detail::compare_floats(ftz ? flush(a) : a, ftz ? flush(b) : b, op);
}
inline bool compare(double a, double b, Compare op) { return detail::compare_floats(a, b, op); }
inline bool compare(Half a, Half b, Compare op, bool ftz = false) {
  return detail::compare_floats(to_float(ftz ? flush(a) : a), to_float(ftz ? flush(b) : b), op);
}
inline bool compare(Bfloat16 a, Bfloat16 b, Compare op) {
  return detail::compare_floats(to_float(a), to_float(b), op);
}

// slct with an s32 selector: c >= 0 ? a : b. T is any bit container.
template <class T>
constexpr T slct(T a, T b, int32_t c) {
  return c >= 0 ? a : b;
}
// slct with an f32 selector: −0 selects a, NaN selects b; .ftz makes a negative subnormal −0.
template <class T>
inline T slct(T a, T b, float c, bool ftz = false) {
  return (ftz ? flush(c) : c) >= 0.0f ? a : b;
}

enum class TestProperty : uint8_t { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };

// testp: zero counts as normal.
template <std::floating_point T>
bool testp(T a, TestProperty property) {
  switch (property) {
    case TestProperty::kFinite:
      return std::isfinite(a);
    case TestProperty::kInfinite:
      return std::isinf(a);
    case TestProperty::kNumber:
      return a == a;
    case TestProperty::kNotANumber:
      return a != a;
    case TestProperty::kNormal:
      return std::isnormal(a) || a == T{0};
    case TestProperty::kSubnormal:
      return std::fpclassify(a) == FP_SUBNORMAL;
  }
  return false;
}

// copysign d, a, b: the sign of a with the magnitude of b.
inline float copysign(float a, float b) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(a) & 0x80000000u) |
                              (std::bit_cast<uint32_t>(b) & 0x7fffffffu));
}
inline double copysign(double a, double b) {
  return std::bit_cast<double>((std::bit_cast<uint64_t>(a) & (uint64_t{1} << 63)) |
                               (std::bit_cast<uint64_t>(b) & ~(uint64_t{1} << 63)));
}

}  // namespace tilewright::emulator
