#include "emulator/instructions/soft_float.h"

#include <bit>
#include <cmath>

#include "emulator/instructions/float.h"

namespace tilewright::emulator {
namespace {

int top_bit(Uint128 value) {
  const uint64_t high = static_cast<uint64_t>(value >> 64);
  return high != 0 ? 127 - std::countl_zero(high)
                   : 63 - std::countl_zero(static_cast<uint64_t>(value));
}

// Divides by 2^count, dropped bits into sticky.
void shift_right(Exact& value, int count) {
  if (count <= 0) return;
  const Uint128 kept = count >= 128 ? Uint128{0} : value.significand >> count;
  const Uint128 restored = count >= 128 ? Uint128{0} : kept << count;
  value.sticky |= restored != value.significand;
  value.significand = kept;
  value.exponent += count;
}

// The exact sum; `rounding` decides the sign of a zero that neither operand's sign decides.
Exact add_exact(Exact a, Exact b, Rounding rounding) {
  if (a.significand == 0 && b.significand == 0) {
    a.negative = a.negative == b.negative ? a.negative : rounding == Rounding::kDown;
    return a;
  }
  if (a.significand == 0) return b;
  if (b.significand == 0) return a;
  if (top_bit(a.significand) + a.exponent < top_bit(b.significand) + b.exponent) std::swap(a, b);
  const int lift = 124 - top_bit(a.significand);
  a.significand <<= lift;
  a.exponent -= lift;
  if (b.exponent > a.exponent) {
    b.significand <<= b.exponent - a.exponent;
    b.exponent = a.exponent;
  } else {
    shift_right(b, a.exponent - b.exponent);
  }
  if (a.negative == b.negative) {
    a.significand += b.significand;
  } else {
    if (b.significand > a.significand) std::swap(a, b);
    a.significand -= b.significand;
    if (b.sticky) a.significand -= 1;  // minus a fraction: the floor, and the rest stays sticky
    if (a.significand == 0 && !b.sticky) a.negative = rounding == Rounding::kDown;
  }
  a.sticky = a.sticky || b.sticky;
  return a;
}

Exact multiply_exact(const Exact& a, const Exact& b) {
  return {a.negative != b.negative, a.exponent + b.exponent, a.significand * b.significand, false};
}

Exact divide_exact(Exact a, const Exact& b) {
  const int lift = 126 - top_bit(a.significand);
  a.significand <<= lift;
  const Uint128 quotient = a.significand / b.significand;
  return {a.negative != b.negative, a.exponent - lift - b.exponent, quotient,
          quotient * b.significand != a.significand};
}

Exact sqrt_exact(Exact a) {
  int lift = 124 - top_bit(a.significand);
  if ((a.exponent - lift) % 2 != 0) ++lift;
  const Uint128 value = a.significand << lift;
  Uint128 root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const Uint128 trial = root | Uint128{1} << bit;
    if (trial * trial <= value) root = trial;
  }
  return {false, (a.exponent - lift) / 2, root, root * root != value};
}

template <class T>
T from_exact(const Exact& value, Rounding rounding) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<double>(round_exact(value, kSpecF64, rounding));
  } else {
    return std::bit_cast<float>(static_cast<uint32_t>(round_exact(value, kSpecF32, rounding)));
  }
}

template <class T>
T add_rounded(T a, T b, Rounding rounding) {
  if (!std::isfinite(a) || !std::isfinite(b)) return a + b;
  return from_exact<T>(add_exact(to_exact(a), to_exact(b), rounding), rounding);
}
template <class T>
T mul_rounded(T a, T b, Rounding rounding) {
  if (!std::isfinite(a) || !std::isfinite(b) || a == 0 || b == 0) return a * b;
  return from_exact<T>(multiply_exact(to_exact(a), to_exact(b)), rounding);
}
template <class T>
T fma_rounded(T a, T b, T c, Rounding rounding) {
  if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(c)) return std::fma(a, b, c);
  const Exact product = multiply_exact(to_exact(a), to_exact(b));
  return from_exact<T>(add_exact(product, to_exact(c), rounding), rounding);
}
template <class T>
T div_rounded(T a, T b, Rounding rounding) {
  if (!std::isfinite(a) || !std::isfinite(b) || a == 0 || b == 0) return a / b;
  return from_exact<T>(divide_exact(to_exact(a), to_exact(b)), rounding);
}
template <class T>
T sqrt_rounded(T a, Rounding rounding) {
  if (!std::isfinite(a) || a <= 0) return std::sqrt(a);
  return from_exact<T>(sqrt_exact(to_exact(a)), rounding);
}

bool rounds_away(bool odd, int compared_to_half, bool inexact, bool negative, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearestEven:
      return compared_to_half > 0 || (compared_to_half == 0 && odd);
    case Rounding::kNearestAway:
      return compared_to_half >= 0;
    case Rounding::kTowardZero:
      return false;
    case Rounding::kDown:
      return inexact && negative;
    case Rounding::kUp:
      return inexact && !negative;
  }
  return false;
}

bool overflows_to_infinity(bool negative, Rounding rounding) {
  switch (rounding) {
    case Rounding::kTowardZero:
      return false;
    case Rounding::kDown:
      return negative;
    case Rounding::kUp:
      return !negative;
    default:
      return true;
  }
}

}  // namespace

Exact to_exact(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const int biased = static_cast<int>(bits >> 52 & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  const uint64_t significand = biased == 0 ? fraction : fraction | uint64_t{1} << 52;
  return {(bits >> 63) != 0, (biased == 0 ? 1 : biased) - 1075, significand, false};
}

uint64_t round_exact(const Exact& value, FloatSpec spec, Rounding rounding) {
  const uint64_t sign = uint64_t{value.negative} << (spec.exponent_bits + spec.fraction_bits);
  if (value.significand == 0 && !value.sticky) return sign;
  const int smallest = 2 - (1 << (spec.exponent_bits - 1));  // exponent of the least normal
  const int leading = value.significand == 0 ? smallest - 2 * spec.fraction_bits
                                             : top_bit(value.significand) + value.exponent;
  const int scale = leading > smallest ? leading : smallest;
  const int drop = scale - spec.fraction_bits - value.exponent;
  Uint128 kept = 0;
  int compared_to_half = -1;
  bool inexact = value.sticky;
  if (drop <= 0) {
    kept = value.significand << -drop;
  } else {
    kept = drop > 127 ? Uint128{0} : value.significand >> drop;
    const Uint128 rest = value.significand - (drop > 127 ? Uint128{0} : kept << drop);
    inexact = inexact || rest != 0;
    if (drop <= 128) {
      const Uint128 half = Uint128{1} << (drop - 1);
      compared_to_half = rest > half ? 1 : rest < half ? -1 : value.sticky ? 1 : 0;
    }
  }
  const bool odd = (kept & 1) != 0;
  if (rounds_away(odd, compared_to_half, inexact, value.negative, rounding)) kept += 1;
  // A normal's hidden bit adds one to the exponent field, and so does a carry out of rounding.
  const uint64_t infinity = ((uint64_t{1} << spec.exponent_bits) - 1) << spec.fraction_bits;
  const int largest = 1 - smallest;
  uint64_t bits = infinity;
  if (scale <= largest) {
    bits = (static_cast<uint64_t>(scale - smallest) << spec.fraction_bits) +
           static_cast<uint64_t>(kept);
  }
  if (bits >= infinity) {
    bits = overflows_to_infinity(value.negative, rounding) ? infinity : infinity - 1;
  }
  return sign | bits;
}

uint64_t round_double(double value, FloatSpec spec, Rounding rounding) {
  const uint64_t sign = uint64_t{std::signbit(value)} << (spec.exponent_bits + spec.fraction_bits);
  if (std::isnan(value)) return (uint64_t{1} << (spec.exponent_bits + spec.fraction_bits)) - 1;
  if (std::isinf(value)) {
    return sign | ((uint64_t{1} << spec.exponent_bits) - 1) << spec.fraction_bits;
  }
  return round_exact(to_exact(value), spec, rounding);
}

namespace detail {
float add_directed(float a, float b, Rounding r) { return add_rounded(a, b, r); }
float mul_directed(float a, float b, Rounding r) { return mul_rounded(a, b, r); }
float fma_directed(float a, float b, float c, Rounding r) { return fma_rounded(a, b, c, r); }
float div_directed(float a, float b, Rounding r) { return div_rounded(a, b, r); }
float sqrt_directed(float a, Rounding r) { return sqrt_rounded(a, r); }
double add_directed(double a, double b, Rounding r) { return add_rounded(a, b, r); }
double mul_directed(double a, double b, Rounding r) { return mul_rounded(a, b, r); }
double fma_directed(double a, double b, double c, Rounding r) { return fma_rounded(a, b, c, r); }
double div_directed(double a, double b, Rounding r) { return div_rounded(a, b, r); }
double sqrt_directed(double a, Rounding r) { return sqrt_rounded(a, r); }
}  // namespace detail

}  // namespace tilewright::emulator
