// Floating point done the long way: formats as data, sums in a fixed-point number wide enough for
// any f64 product, and one rounding step. Written from IEEE 754 and the PTX ISA only.
#pragma once

#include <array>
#include <cstdint>

#include "emulator/ptx/types.h"

namespace tilewright::emulator::slow {

using Wide = unsigned __int128;

enum class Round : uint8_t { kNearestEven, kNearestAway, kZero, kDown, kUp };
Round to_round(ptx::Rounding rounding);

struct Format {
  int exponent_bits = 8;
  int fraction_bits = 23;
  bool has_infinity = true;  // e4m3 has none: its top exponent is finite but for all-ones NaN
  int bits() const { return 1 + exponent_bits + fraction_bits; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int min_exponent() const { return 1 - bias(); }
  uint64_t sign_mask() const { return uint64_t{1} << (bits() - 1); }
  uint64_t infinity() const { return ((uint64_t{1} << exponent_bits) - 1) << fraction_bits; }
  uint64_t max_finite() const { return has_infinity ? infinity() - 1 : infinity() + 6; }
  // What the ISA calls canonical: all ones below the sign.
  uint64_t canonical_nan() const { return sign_mask() - 1; }
  uint64_t one() const { return static_cast<uint64_t>(bias()) << fraction_bits; }
};
inline constexpr Format kHalf{5, 10};
inline constexpr Format kBfloat{8, 7};
inline constexpr Format kSingle{8, 23};
inline constexpr Format kDouble{11, 52};
inline constexpr Format kTensorFloat{8, 10};  // the top 19 bits of tf32's container
inline constexpr Format kE4m3{4, 3, false};
inline constexpr Format kE5m2{5, 2};
// Of one element of a (packed) floating type.
Format format_of(ptx::Type type);

enum class Kind : uint8_t { kZero, kFinite, kInfinity, kNan };
struct Number {
  Kind kind = Kind::kZero;
  bool negative = false;
  uint64_t significand = 0;  // value = significand * 2^exponent
  int exponent = 0;
  bool is_nan() const { return kind == Kind::kNan; }
  bool is_zero() const { return kind == Kind::kZero; }
};
Number decode(Format format, uint64_t bits);
bool is_nan(Format format, uint64_t bits);
bool is_subnormal(Format format, uint64_t bits);
// Subnormal to zero of the same sign.
uint64_t flush(Format format, uint64_t bits);
// NaN-free values only.
long double to_long_double(const Number& number);
// -1, 0, 1; NaN-free values only; -0 equals +0.
int compare(const Number& a, const Number& b);

// A nonzero real: significand * 2^exponent, of which the lowest bit stands for "and a bit more" if
// digits were lost below it.
struct Unrounded {
  bool negative = false;
  Wide significand = 0;
  int exponent = 0;
};
uint64_t round_to(Format format, Round round, const Unrounded& value);

// A sum of products, exact. Bit 0 has the weight 2^-2240.
class Accumulator {
 public:
  void add(bool negative, Wide significand, int exponent);
  bool is_zero() const;
  Unrounded get() const;  // not of zero

 private:
  static constexpr int kLimbs = 71;
  std::array<uint64_t, kLimbs> limbs_{};  // two's complement
};

// IEEE operations. A NaN result is the format's canonical NaN: how far its bits are specified is
// the caller's affair.
uint64_t add(Format format, Round round, uint64_t a, uint64_t b);
uint64_t multiply(Format format, Round round, uint64_t a, uint64_t b);
uint64_t fused_multiply_add(Format format, Round round, uint64_t a, uint64_t b, uint64_t c);
uint64_t divide(Format format, Round round, uint64_t a, uint64_t b);
uint64_t square_root(Format format, Round round, uint64_t a);
// From one format to another.
uint64_t convert(Format to, Format from, Round round, uint64_t bits);
uint64_t from_integer(Format to, Round round, bool negative, uint64_t magnitude);
// Rounded to an integer; finite values only. Beyond 2^70 any magnitude above that.
struct Integral {
  bool negative = false;
  Wide magnitude = 0;
};
Integral to_integral(Round round, const Number& number);

}  // namespace tilewright::emulator::slow
